// Two pieces of an answer as one. Used by engine/gateway/answer while nobody reads, and by
// engine/prompts/answer-parser for a call that was held back.
import { join } from './packed-tokens.js';
import type { Delta } from './protocol.js';

/** Both deltas as one. Arguments of one tool call are concatenated. */
export function merge(a: Delta, b: Delta): Delta {
  const merged: Delta = { ...a };
  if (b.content !== undefined) merged.content = (a.content ?? '') + b.content;
  if (b.reasoning !== undefined) merged.reasoning = (a.reasoning ?? '') + b.reasoning;
  if (b.toolCalls) {
    const calls = (a.toolCalls ?? []).map((call) => ({ ...call }));
    for (const call of b.toolCalls) {
      const known = calls.find(({ index }) => index === call.index);
      if (!known) calls.push({ ...call });
      else {
        if (call.id !== undefined) known.id ??= call.id;
        if (call.name !== undefined) known.name ??= call.name;
        if (call.arguments !== undefined) known.arguments = (known.arguments ?? '') + call.arguments;
      }
    }
    merged.toolCalls = calls;
  }
  if (b.tokens) merged.tokens = a.tokens ? join(a.tokens, b.tokens) : b.tokens;
  if (b.echo !== undefined) merged.echo = b.echo;
  if (b.promptTokens) merged.promptTokens = b.promptTokens;
  if (b.progress) merged.progress = b.progress;
  if (b.soFar) merged.soFar = b.soFar;
  return merged;
}
