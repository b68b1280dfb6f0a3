// POST /v1/chat/completions/control: ends the thinking of a running chat, by the id of its answer,
// as in llama-server. Mounted by dialect; also takes ids of the other dialects.
import type { Request, RequestHandler, Response } from 'express';
import { RecuaError } from '../../errors.js';
import { wrongType, type Fields } from '../../request/fields.js';
import { readAll } from '../exchange/admission.js';
import type { Gateway } from '../http/gateway.js';

const maxId = 256;

export function control({ live, ownerOf }: Gateway): RequestHandler {
  return (req: Request, res: Response) => {
    const { asked: id, told } = readAll(req, readControl);
    const chat = live.get(id, ownerOf(res));
    if (!chat) throw new RecuaError('answer_not_found', `No running answer has the id ${JSON.stringify(id)}: it has ended, or never existed.`, { param: 'id' });
    if (!chat.hasControl) throw new RecuaError('invalid_value', 'Expected an answer that was requested with "reasoning_control": true.', { param: 'id' });
    for (const answer of chat.answers) answer.endThinking();
    res.json({ success: true, ...told });
  };
}

/** Returns the id of the chat. */
export function readControl(body: Fields): string {
  const id = body.name('id', maxId);
  if (body.word('action', ['reasoning_end']) === undefined) throw wrongType('action', '"reasoning_end"', undefined);
  return id;
}
