// POST /v1/chat/completions/control: a running chat, by the id of its answer, is told to end its
// thinking now. As llama-server has it. Mounted by dialect; takes the ids of the other dialects,
// too.
import type { Request, RequestHandler, Response } from 'express';
import { Fields, wrongType } from '../../request/fields.js';
import { takeBody } from '../body/json-body.js';
import type { Gateway } from '../http/gateway.js';

const maxId = 256;

export function control({ live }: Gateway): RequestHandler {
  return (req: Request, res: Response) => {
    const body = Fields.of(takeBody(req));
    const id = body.name('id', maxId);
    if (body.word('action', ['reasoning_end']) === undefined) throw wrongType('action', '"reasoning_end"', undefined);
    const chat = live.get(id);
    if (!chat) return void res.json({ success: false, message: 'No chat of this id is running.' });
    if (!chat.hasControl) {
      return void res.json({ success: false, message: 'This chat was not asked for with "reasoning_control": true.' });
    }
    for (const answer of chat.answers) answer.endThinking();
    res.json({ success: true });
  };
}
