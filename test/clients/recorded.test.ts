// Requests that programs sent to this server, recorded while a scripted model made them list files,
// write one and answer a second question: in order, with our own texts in place of theirs. Each is
// sent again to the real server on the built-in model: it is accepted, its stream has what the
// program's parser needs, the whole answer is the same, and no turn reads the last one again.
import { readFileSync, readdirSync } from 'node:fs';
import t, { type Test } from 'tap';
import { startService } from '../service/service.js';

interface Recording {
  program: string;
  headers: Record<string, string>;
  /** Fields in all bodies. */
  shared: Record<string, unknown>;
  requests: {
    path: string;
    /** The number of the request that this one continues. */
    after?: number;
    body: Record<string, unknown>;
  }[];
}

/** Usage and text of an answer, in the program's dialect. */
interface Said {
  prompt: number;
  cached: number;
  whole: unknown;
}

interface Protocol {
  /** The field that limits the answer's length. */
  most: string;
  /** Checks the stream of an answer. */
  stream(t: Test, text: string): Said;
  /** The same for a whole answer. */
  whole(answer: any): Said;
}

interface Event {
  event: string | undefined;
  data: any;
}

function eventsOf(text: string): Event[] {
  return text.trimEnd().split('\n\n').map((event) => {
    const lines = event.split('\n');
    const data = lines.find((line) => line.startsWith('data: '))!.slice('data: '.length);
    return { event: lines.find((line) => line.startsWith('event: '))?.slice('event: '.length), data: data === '[DONE]' ? data : JSON.parse(data) as object };
  });
}

/** Without fields that differ between two answers. */
function plain(value: unknown): unknown {
  const varies = new Set(['id', 'call_id', 'response_id', 'created', 'created_at', 'completed_at', 'timings', 'encrypted_content', 'usage', 'store']);
  return JSON.parse(JSON.stringify(value), (key, inner: unknown) => (varies.has(key) ? undefined : inner));
}

const responses: Protocol = {
  most: 'max_output_tokens',
  stream(t, text) {
    const events = eventsOf(text);
    const types = events.map(({ event, data }) => {
      t.equal(data.type, event);
      return event!;
    });
    t.strictSame(events.map(({ data }) => data.sequence_number), events.map((_, index) => index), 'numbered without a gap');
    t.equal(types[0], 'response.created');
    t.match(types.at(-1), /^response\.(completed|incomplete)$/);
    // Items begin and end one after another; Codex takes each from its end event.
    let open: string | undefined;
    const items: any[] = [];
    for (const { data } of events) {
      if (data.type === 'response.output_item.added') {
        t.equal(open, undefined);
        open = data.item.id;
      } else if (data.type === 'response.output_item.done') {
        t.equal(data.item.id, open);
        open = undefined;
        items.push(data.item);
      } else if (data.item_id !== undefined) t.equal(data.item_id, open);
      if (data.type.endsWith('.delta')) t.type(data.delta, 'string');
      if (data.type === 'response.reasoning_text.delta') t.type(data.content_index, 'number');
    }
    for (const item of items) {
      if (item.type === 'function_call') t.match(item, { name: String, call_id: String, arguments: String });
      else if (item.type === 'custom_tool_call') t.match(item, { name: String, call_id: String, input: String });
      else if (item.type === 'reasoning') t.match(item, { summary: Array, content: [{ type: 'reasoning_text', text: String }] });
      else t.match(item, { type: 'message', role: 'assistant', content: [{ type: 'output_text', text: String }] });
    }
    const { response } = events.at(-1)!.data;
    t.strictSame(response.output, items);
    t.match(response, { id: /^resp_/, usage: { input_tokens: Number, input_tokens_details: { cached_tokens: Number }, output_tokens: Number, output_tokens_details: { reasoning_tokens: Number }, total_tokens: Number } });
    return this.whole(response);
  },
  whole: (answer) => ({ prompt: answer.usage.input_tokens, cached: answer.usage.input_tokens_details.cached_tokens, whole: plain(answer) }),
};

const messages: Protocol = {
  most: 'max_tokens',
  stream(t, text) {
    const events = eventsOf(text).filter(({ event }) => event !== 'ping');
    for (const { event, data } of events) t.equal(data.type, event);
    const [first, ...rest] = events.map(({ data }) => data);
    const [delta, stop] = rest.splice(-2);
    t.match(first, { type: 'message_start', message: { id: String, type: 'message', role: 'assistant', content: [], model: String, stop_reason: null, stop_sequence: null, usage: { input_tokens: Number, output_tokens: Number } } });
    const content: any[] = [];
    let open = false;
    for (const event of rest) {
      if (event.type === 'content_block_start') {
        t.equal(open, false);
        t.equal(event.index, content.length);
        content.push({ ...event.content_block, ...(event.content_block.type === 'tool_use' ? { input: '' } : {}) });
        open = true;
        continue;
      }
      t.ok(open);
      t.equal(event.index, content.length - 1);
      const block = content.at(-1);
      if (event.type === 'content_block_stop') open = false;
      else if (event.delta.type === 'text_delta') block.text += event.delta.text;
      else if (event.delta.type === 'thinking_delta') block.thinking += event.delta.thinking;
      else if (event.delta.type === 'input_json_delta') block.input += event.delta.partial_json;
      else t.equal(event.delta.type, 'signature_delta');
    }
    t.equal(open, false);
    t.match(delta, { type: 'message_delta', delta: { stop_reason: String, stop_sequence: null }, usage: { output_tokens: Number } });
    t.match(stop, { type: 'message_stop' });
    for (const block of content) if (block.type === 'tool_use') block.input = block.input === '' ? {} : JSON.parse(block.input);
    return this.whole({
      ...first.message,
      ...delta.delta,
      content,
      usage: { ...first.message.usage, ...delta.usage },
      ...(delta.warnings ? { warnings: delta.warnings } : {}),
    });
  },
  whole(answer) {
    const { input_tokens: read, cache_read_input_tokens: cached } = answer.usage;
    return { prompt: read + cached, cached, whole: plain(answer) };
  },
};

const chat: Protocol = {
  most: 'max_tokens',
  stream(t, text) {
    const events = eventsOf(text);
    t.equal(events.pop()!.data, '[DONE]');
    const chunks = events.map(({ data }) => data);
    t.match(chunks[0], { id: /^chatcmpl-/, object: 'chat.completion.chunk', created: Number, model: String, choices: [{ index: 0, delta: { role: 'assistant' }, finish_reason: null }] });
    for (const { id, object } of chunks) t.strictSame([id, object], [chunks[0].id, 'chat.completion.chunk']);
    const message: any = { role: 'assistant', content: null, refusal: null, annotations: [] };
    let reason: string | null = null;
    for (const { delta, finish_reason: end } of chunks.flatMap(({ choices }) => choices)) {
      t.equal(reason, null, 'nothing comes after the end');
      if (delta.content) message.content = `${message.content ?? ''}${delta.content}`;
      if (delta.reasoning_content) message.reasoning_content = `${message.reasoning_content ?? ''}${delta.reasoning_content}`;
      for (const { index, id, type, function: { name, arguments: args = '' } } of delta.tool_calls ?? []) {
        message.tool_calls ??= [];
        if (id) t.equal(index, message.tool_calls.push({ id, type, function: { name, arguments: '' } }) - 1);
        message.tool_calls[index].function.arguments += args;
      }
      reason = end;
    }
    t.match(reason, /^(stop|length|tool_calls)$/);
    const { usage } = chunks.at(-1);
    t.match(usage, { prompt_tokens: Number, completion_tokens: Number, total_tokens: Number }, 'each of them asks for the usage');
    return this.whole({ choices: [{ message, finish_reason: reason }], usage });
  },
  whole({ choices: [{ message, finish_reason: reason }], usage }) {
    return {
      prompt: usage.prompt_tokens,
      cached: usage.prompt_tokens_details.cached_tokens,
      whole: plain({ content: message.content || null, reasoning: message.reasoning_content, calls: message.tool_calls, reason }),
    };
  },
};

function protocolOf(path: string): Protocol {
  return path.startsWith('/v1/responses') ? responses : path.startsWith('/v1/messages') ? messages : chat;
}

/** The frame that a template puts around a message may change after the last answer. */
const frameTokens = 8;

const folder = new URL('../../test/clients/recorded/', import.meta.url);
for (const file of readdirSync(folder).filter((name) => name.endsWith('.json'))) {
  const { program, headers, shared, requests } = JSON.parse(readFileSync(new URL(file, folder), 'utf8')) as Recording;
  t.test(`${program}: its requests are answered, and each turn continues the last`, async (t) => {
    const { url } = await startService(t, ['--ctx-size', '16384']);
    const post = async (path: string, body: object): Promise<string> => {
      const reply = await fetch(url + path, { method: 'POST', headers: { ...headers, 'content-type': 'application/json' }, body: JSON.stringify(body) });
      const text = await reply.text();
      if (reply.status !== 200) throw new Error(`${reply.status}: ${text}`);
      return text;
    };
    const prompts: number[] = [];
    for (const [number, { path, after, body }] of requests.entries()) {
      const protocol = protocolOf(path);
      const asked: Record<string, unknown> = { ...shared, ...body, [protocol.most]: 800, model: 'default', temperature: 0 };
      const { stream_options: _, ...rest } = asked;
      // Read once before, so that both answers begin with the same numbers.
      const { prompt, cached } = protocol.whole(JSON.parse(await post(path, { ...rest, stream: false, [protocol.most]: 1 })));
      prompts[number] = prompt;
      if (after !== undefined) t.ok(cached >= prompts[after]! - frameTokens, `request ${number} reads ${prompt - cached} of ${prompt} tokens; ${prompts[after]} were there`);
      const streamed = protocol.stream(t, await post(path, { ...asked, stream: true }));
      const whole = protocol.whole(JSON.parse(await post(path, { ...rest, stream: false })));
      t.strictSame(streamed.whole, whole.whole, `request ${number}: streamed and whole`);
      t.strictSame([streamed.prompt, whole.prompt], [prompt, prompt]);
    }
  });
}
