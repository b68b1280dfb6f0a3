// OpenAI's `verbosity`: how much its own models say. Pure. Called by who reads chats.
import type { Fields } from './fields.js';

const levels = ['low', 'medium', 'high'] as const;

/** The answer's warnings: no model here has a word for it. */
export function readVerbosity(fields: Fields | undefined): string[] {
  const level = fields?.word('verbosity', levels) ?? 'medium';
  return level === 'medium' ? [] : [`${fields!.param('verbosity')} has no effect: no chat template knows it. Say in a message how long the answer is to be.`];
}
