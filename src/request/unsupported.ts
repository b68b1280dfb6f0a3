// Fields of other servers that would change the answer and are not supported. Pure. Used by the
// dialects' readers and by their descriptions for the API reference.
import { RecuaError } from '../errors.js';
import { describe } from './fields.js';

/** What to do instead, or why there is nothing, in Markdown. All others can only be left out. */
export const advice = {
  stop_token_ids: 'use `stop` with texts',
  bad_words: 'use `logit_bias` to ban texts',
  allowed_token_ids: 'use `grammar`',
  use_beam_search: 'answers are always sampled',
  include_stop_str_in_output: 'answers never include the `stop` text',
  functions: 'use `tools`',
  function_call: 'use `tool_choice`',
  audio: 'only text is supported',
  modalities: 'only text is supported',
  images: 'only text is supported',
  web_search_options: 'the server does not search the web',
  conversation: 'use `previous_response_id`',
  thread: 'send the whole conversation',
  context: 'send the conversation to `POST /api/chat`',
  suffix: 'use `POST /infill`',
  template: 'the model brings its own template',
  reasoning_format: 'thinking always goes to `reasoning_content`',
  parse_tool_calls: 'tool calls are always parsed',
  echo: 'the answer never includes the prompt',
  grammar_lazy: 'grammars apply from the first token',
  grammar_triggers: 'grammars apply from the first token',
  generation_prompt: 'the chat template defines it',
  response_fields: 'answers are always complete',
} as const;

export function unsupported(name: string, value: unknown): RecuaError {
  const instead = Object.hasOwn(advice, name) ? advice[name as keyof typeof advice] : 'leave it out';
  return new RecuaError('unsupported_parameter', `${name} is not supported, got ${describe(value)}; ${instead.replaceAll('`', '')}.`, { param: name });
}
