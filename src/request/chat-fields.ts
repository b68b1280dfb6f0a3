// Small fields of chats that several dialects have. Pure. Called by the readers of chats.
import type { ChatRequest } from '../engine/protocol.js';
import type { Fields } from './fields.js';

const levels = ['low', 'medium', 'high'] as const;

/** What to do with a conversation that does not fit the context. By default it is refused. */
export function readTruncation(body: Fields): Required<Pick<ChatRequest, 'truncation'>> {
  return { truncation: body.word('truncation', ['auto', 'disabled']) ?? 'disabled' };
}

/**
 * OpenAI's `verbosity`: how long answers should be. Returns warnings for the answer: no chat
 * template here supports it.
 */
export function readVerbosity(fields: Fields | undefined): string[] {
  const level = fields?.word('verbosity', levels) ?? 'medium';
  return level === 'medium' ? [] : [`${fields!.param('verbosity')} has no effect: no chat template supports it. Say in a message how long the answer should be.`];
}
