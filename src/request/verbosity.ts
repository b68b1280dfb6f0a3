// OpenAI's `verbosity`: how long answers should be. Pure. Called by the readers of chats.
import type { Fields } from './fields.js';

const levels = ['low', 'medium', 'high'] as const;

/** Returns warnings for the answer: no chat template here supports it. */
export function readVerbosity(fields: Fields | undefined): string[] {
  const level = fields?.word('verbosity', levels) ?? 'medium';
  return level === 'medium' ? [] : [`${fields!.param('verbosity')} has no effect: no chat template supports it. Say in a message how long the answer should be.`];
}
