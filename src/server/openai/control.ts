// POST /v1/chat/completions/control: a running chat, by the id of its answer, is told to end its
// thinking now. As llama-server has it. Mounted by dialect; takes the ids of the other dialects,
// too.
import type { Request, RequestHandler, Response } from 'express';
import { RecuaError } from '../../errors.js';
import { describe, wrongType, type Fields } from '../../request/fields.js';
import { readAll } from '../exchange/admission.js';
import type { Gateway } from '../http/gateway.js';

const maxId = 256;

export function control({ live }: Gateway): RequestHandler {
  return (req: Request, res: Response) => {
    const { asked: id, told } = readAll(req, readControl);
    const chat = live.get(id);
    if (!chat) throw new RecuaError('answer_not_found', `No answer of the id ${describe(id)} is being written: it has ended, or never was.`, { param: 'id' });
    if (!chat.hasControl) throw new RecuaError('invalid_value', 'Expected an answer that was asked for with "reasoning_control": true.', { param: 'id' });
    for (const answer of chat.answers) answer.endThinking();
    res.json({ success: true, ...told });
  };
}

/** The id of the chat. */
export function readControl(body: Fields): string {
  const id = body.name('id', maxId);
  if (body.word('action', ['reasoning_end']) === undefined) throw wrongType('action', '"reasoning_end"', undefined);
  return id;
}
