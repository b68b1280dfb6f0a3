// A conversation like Codex's: the fields, tools and items that it sends, and the events that it
// waits for. Over the fake engine.
import t from 'tap';
import { post, startApp } from '../app-under-test.js';
import { messagesOf } from '../fake-engine.js';

const text = (role: string, ...parts: string[]): object => ({ type: 'message', role, content: parts.map((part) => ({ type: 'input_text', text: part })) });

const tools = [
  {
    type: 'function', name: 'shell_command', description: 'Runs a shell command and returns its output.', strict: false,
    parameters: { type: 'object', properties: { command: { type: 'string' }, workdir: { type: 'string' }, timeout_ms: { type: 'number' } }, required: ['command'], additionalProperties: false },
  },
  {
    type: 'function', name: 'update_plan', description: 'Updates the task plan.', strict: false,
    parameters: { type: 'object', properties: { plan: { type: 'array', items: { type: 'object', properties: { step: { type: 'string' }, status: { type: 'string' } } } } }, required: ['plan'] },
  },
  { type: 'custom', name: 'apply_patch', description: 'Edits files.', format: { type: 'grammar', syntax: 'lark', definition: 'start: "*** Begin Patch" LF "*** End Patch" LF?\n%import common.LF' } },
  { type: 'web_search', external_web_access: true },
  { type: 'image_generation', output_format: 'png' },
];

const first = [
  text('developer', '<permissions instructions>\nThe sandbox is read-only.\n</permissions instructions>'),
  text('user', '# AGENTS.md instructions\n\nBe brief.', '<environment_context>\n  <cwd>/work</cwd>\n  <shell>bash</shell>\n</environment_context>'),
  text('user', 'List the files.'),
];

const body = {
  model: 'default', instructions: 'You are a coding agent that runs in a terminal.', input: first, tools, tool_choice: 'auto', parallel_tool_calls: true,
  reasoning: { effort: 'medium', summary: 'auto' }, store: false, stream: true, include: ['reasoning.encrypted_content'], service_tier: 'priority',
  prompt_cache_key: '0199a213-81c0-7800-8aa1-bbab2a035a53', text: { verbosity: 'medium' }, client_metadata: { 'x-codex-installation-id': '11111111-2222-3333-4444-555555555555' },
};

interface Event {
  type: string;
  item?: Record<string, unknown>;
  response?: { id: string; usage: object; output: Record<string, unknown>[] };
}

t.test('Codex asks, has its tool run, and continues with the result', async (t) => {
  const app = await startApp(t);
  const ask = async (input: readonly object[]): Promise<Event[]> => {
    const reply = await post(`${app.url}/v1/responses`, { ...body, input }, { accept: 'text/event-stream', originator: 'codex_cli_rs', session_id: 'x' });
    const answer = await reply.text();
    t.equal(reply.status, 200, answer);
    return answer.trim().split('\n\n').map((event) => JSON.parse(/^data: (.*)$/m.exec(event)![1]!) as Event);
  };
  app.engine.script = async function* () {
    yield { reasoning: 'I list them.' };
    await new Promise(setImmediate);
    yield { content: 'Looking.' };
    await new Promise(setImmediate);
    yield { toolCalls: [{ index: 0, id: 'call_1', name: 'shell_command', arguments: '{"command":"ls"}' }] };
  };
  app.engine.finish = { finishReason: 'tool_calls' };
  const turn = await ask(first);
  t.match(turn.at(-1), { type: 'response.completed', response: { id: /^resp_/, usage: { input_tokens: Number, output_tokens: Number, total_tokens: Number } } });
  const items = turn.filter(({ type }) => type === 'response.output_item.done').map(({ item }) => item!);
  t.match(items, [
    { type: 'reasoning', summary: [], encrypted_content: /./ }, { type: 'message', role: 'assistant' },
    { type: 'function_call', name: 'shell_command', call_id: 'call_1', arguments: '{"command":"ls"}' },
  ]);

  // Codex returns items without their ids, and hidden thoughts in their sealed form.
  const given = items.map(({ id: _, status: _status, ...item }) => (item['type'] === 'reasoning' ? { ...item, content: null } : item));
  app.engine.script = async function* () {
    yield { content: 'One file: a.txt' };
  };
  app.engine.finish = {};
  await ask([...first, ...given, { type: 'function_call_output', call_id: 'call_1', output: 'Exit code: 0\nOutput:\na.txt' }, text('user', 'Thanks')]);
  t.match(messagesOf(app.engine.requests[1]!), [
    { role: 'system', content: body.instructions }, { role: 'system', content: /sandbox/ }, { role: 'user', content: /AGENTS.*environment_context/s }, { role: 'user', content: 'List the files.' },
    { role: 'assistant', reasoning_content: 'I list them.', content: 'Looking.', tool_calls: [{ id: 'call_1', function: { name: 'shell_command', arguments: '{"command":"ls"}' } }] },
    { role: 'tool', tool_call_id: 'call_1', content: /a\.txt/ }, { role: 'user', content: 'Thanks' },
  ]);
  t.strictSame(app.engine.requests[1]!.toolSources.map(({ name }) => name), ['shell_command', 'update_plan', 'apply_patch']);
});
