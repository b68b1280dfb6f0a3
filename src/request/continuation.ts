// Where the answer begins: after the messages, or inside the last of them. The rules are those of
// llama-server, and those of vLLM if a request has both fields. Pure.
import type { ChatMessage, ChatRequest } from '../engine/protocol.js';
import { RecuaError } from '../errors.js';
import { describe, wrongType, wrongValue, type Fields } from './fields.js';

type Continuation = Pick<ChatRequest, 'continuation' | 'addGenerationPrompt'>;

/** By default, the answer continues a last message of the assistant. */
export function readContinuation(body: Fields, messages: readonly ChatMessage[]): Continuation {
  const given = body.get('continue_final_message');
  const prompt = body.boolean('add_generation_prompt');
  if (given === true || given === 'content' || given === 'reasoning_content') {
    if (prompt === true) throw wrongValue('add_generation_prompt', 'false with continue_final_message, since the answer begins in the last message', prompt);
    checkLast(messages);
    return { continuation: given === true ? 'auto' : given };
  }
  if (given !== undefined && given !== false) throw wrongType('continue_final_message', 'true, false, "content" or "reasoning_content"', given);
  // As in vLLM, whose clients send both fields.
  if (given === false && prompt === true) return { continuation: 'none' };
  checkAnswers(messages);
  return prompt === false ? { addGenerationPrompt: false } : {};
}

function checkLast(messages: readonly ChatMessage[]): void {
  const last = messages.at(-1);
  const at = `messages[${messages.length - 1}]`;
  if (last?.role !== 'assistant') {
    throw new RecuaError('invalid_value', `Expected the last message to be an assistant's, because the answer continues it, got one of ${describe(last?.role)}.`, { param: `${at}.role` });
  }
  if (last.tool_calls) throw wrongValue(`${at}.tool_calls`, 'no tool calls in the last message, which the answer continues', last.tool_calls);
}

/**
 * Refuses two answers at the end: it would be unclear which one to continue. `sources`: the fields
 * that the messages come from.
 * @throws RecuaError `invalid_value`
 */
export function checkAnswers(messages: readonly ChatMessage[], sources?: readonly string[]): void {
  const [before, last] = messages.slice(-2);
  if (before?.role !== 'assistant' || last?.role !== 'assistant' || last.tool_calls) return;
  const param = sources?.at(-1) ?? `messages[${messages.length - 1}]`;
  throw new RecuaError('invalid_value', `Expected at most one assistant message at the end, got another in ${param}; join the two.`, { param });
}
