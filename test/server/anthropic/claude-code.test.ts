// A conversation like Claude Code's: the fields, blocks and headers that it sends. Over the fake
// engine.
import t from 'tap';
import { post, startApp } from '../app-under-test.js';
import { messagesOf } from '../fake-engine.js';

const ephemeral = { type: 'ephemeral' };
const body = (build: string, messages: readonly object[]): object => ({
  model: 'default', max_tokens: 32_000, stream: true, messages,
  system: [
    { type: 'text', text: `x-anthropic-billing-header: cc_version=2.1.75.${build}; cc_entrypoint=cli; cch=${build}0;` },
    { type: 'text', text: 'You are an agent for software engineering.', cache_control: ephemeral },
    { type: 'text', text: 'Be brief.\n<env>\nWorking directory: /work\n</env>', cache_control: ephemeral },
  ],
  tools: [
    { name: 'Bash', description: 'Runs a command.', input_schema: { $schema: 'https://json-schema.org/draft/2020-12/schema', type: 'object', properties: { command: { type: 'string' }, timeout: { type: 'number' } }, required: ['command'], additionalProperties: false } },
    { name: 'Read', description: 'Reads a file.', input_schema: { type: 'object', properties: { file_path: { type: 'string' } }, required: ['file_path'], additionalProperties: false }, cache_control: ephemeral },
  ],
  metadata: { user_id: '{"device_id":"a","account_uuid":"","session_id":"b"}' },
  thinking: { type: 'adaptive' }, output_config: { effort: 'medium' }, context_management: { edits: [{ type: 'clear_thinking_20251015', keep: 'all' }] },
});

const question = { role: 'user', content: [{ type: 'text', text: '<system-reminder>\nAs you answer, be kind.\n</system-reminder>\n' }, { type: 'text', text: 'List the files.', cache_control: ephemeral }] };

t.test('Claude Code asks, has its tool run, and continues with the result', async (t) => {
  const app = await startApp(t);
  const headers = { 'anthropic-version': '2023-06-01', 'anthropic-beta': 'claude-code-20250219,interleaved-thinking-2025-05-14', 'x-app': 'cli', 'user-agent': 'claude-cli/2.1.75 (external, cli)' };
  const ask = async (build: string, messages: readonly object[]): Promise<string> => {
    const reply = await post(`${app.url}/v1/messages?beta=true`, body(build, messages), headers);
    const text = await reply.text();
    t.equal(reply.status, 200, text);
    return text;
  };
  app.engine.script = async function* () {
    yield { reasoning: 'I list them.' };
    await new Promise(setImmediate);
    yield { toolCalls: [{ index: 0, id: 'toolu_1', name: 'Bash', arguments: '{"command":"ls"}' }] };
  };
  app.engine.finish = { finishReason: 'tool_calls' };
  const turn = await ask('abc', [question]);
  t.match(turn, /"type":"tool_use","id":"toolu_1","name":"Bash"/);
  t.match(turn, /"stop_reason":"tool_use"/);
  app.engine.script = async function* () {
    yield { content: 'One file: a.txt' };
  };
  app.engine.finish = {};
  await ask('def', [
    question,
    { role: 'assistant', content: [{ type: 'thinking', thinking: 'I list them.', signature: '' }, { type: 'tool_use', id: 'toolu_1', name: 'Bash', input: { command: 'ls' } }] },
    { role: 'user', content: [{ tool_use_id: 'toolu_1', type: 'tool_result', content: 'a.txt', is_error: false, cache_control: ephemeral }] },
  ]);
  const [before, after] = app.engine.requests.map(messagesOf);
  t.strictSame(after!.slice(0, before!.length), before, 'what is new comes at the end, whatever its first line says of the bill');
  t.match(after!.slice(before!.length), [
    { role: 'assistant', reasoning_content: 'I list them.', tool_calls: [{ id: 'toolu_1', function: { name: 'Bash', arguments: '{"command":"ls"}' } }] },
    { role: 'tool', tool_call_id: 'toolu_1', content: 'a.txt' },
  ]);
});
