// The names that boards and routers made for llama-server and vLLM ask for, over the numbers of
// instruments: read when somebody asks, counted once. llama-server's have no labels; vLLM's have
// `model_name` and `engine`. Built by metrics.
import type { Metric, Registry } from 'prom-client';
import type { Instruments } from './instruments.js';

type Labels = Readonly<Record<string, string | number>>;
type Original = Pick<Metric, 'get'>;

interface Value {
  value: number;
  labels: Labels;
  /** Of a histogram's lines. */
  metricName?: string;
}

/** What its values have of an original's labels; lines that have the same are summed. */
type Relabel = (labels: Labels) => Labels;

const ofModel: Relabel = ({ model = '', le }) => ({ model_name: model, engine: '0', ...(le === undefined ? {} : { le }) });

/** vLLM's words. */
const reasons: Readonly<Record<string, string>> = { tool_calls: 'stop', cancelled: 'abort' };

export function addAliases(registry: Registry, all: Instruments): void {
  /** What a registry asks of a metric when it is read. */
  const register = (name: string, help: string, read: () => Promise<{ type: string; values: readonly Value[] }>): void => {
    const get = async () => ({ name, help, ...await read(), aggregator: 'sum' });
    registry.registerMetric({ name, help, get } as unknown as Metric);
  };
  const add = (name: string, help: string, original: Original, relabel: Relabel): void => register(name, help, async () => {
    const { type, values } = await original.get();
    return { type: String(type), values: summed(values as readonly Value[], name, relabel) };
  });
  const sum = (name: string, type: 'counter' | 'gauge', help: string, read: () => Promise<number>): void => (
    register(name, help, async () => ({ type, values: [{ value: await read(), labels: {} }] }))
  );

  const llama = 'As llama-server counts, of all models together:';
  sum('llamacpp:prompt_tokens_total', 'counter', `${llama} prompt tokens that were computed.`, async () => await total(all.prompt) - await total(all.cached));
  sum('llamacpp:prompt_tokens_cached_total', 'counter', `${llama} prompt tokens from the cache.`, () => total(all.cached));
  sum('llamacpp:prompt_seconds_total', 'counter', `${llama} seconds of reading prompts.`, () => total(all.reading));
  sum('llamacpp:tokens_predicted_total', 'counter', `${llama} generated tokens.`, () => total(all.generated));
  sum('llamacpp:tokens_predicted_seconds_total', 'counter', `${llama} seconds of generating.`, () => total(all.generating));
  sum('llamacpp:spec_decode_num_draft_tokens_total', 'counter', `${llama} tokens guessed ahead.`, () => total(all.drafted));
  sum('llamacpp:spec_decode_num_accepted_tokens_total', 'counter', `${llama} tokens guessed ahead that came true.`, () => total(all.accepted));
  sum('llamacpp:prompt_tokens_seconds', 'gauge', `${llama} prompt tokens that were computed per second of reading them.`, async () => (await total(all.looked) - await total(all.cached)) / (await total(all.reading) || 1));
  sum('llamacpp:predicted_tokens_seconds', 'gauge', `${llama} tokens generated per second.`, () => total(all.speed));
  sum('llamacpp:requests_processing', 'gauge', `${llama} requests at work.`, () => total(all.running));
  sum('llamacpp:requests_deferred', 'gauge', `${llama} requests that wait.`, () => total(all.waiting));
  sum('llamacpp:kv_cache_tokens', 'gauge', `${llama} tokens of requests at work in the context.`, () => total(all.kvUsed));
  sum('llamacpp:kv_cache_usage_ratio', 'gauge', `${llama} part of the context that requests at work take, 0 to 1.`, async () => await total(all.kvUsed) / (await total(all.kvSize) || 1));

  const vllm = 'As vLLM names it:';
  add('vllm:num_requests_running', `${vllm} requests at work.`, all.running, ofModel);
  add('vllm:num_requests_waiting', `${vllm} requests that wait.`, all.waiting, ofModel);
  for (const usage of ['vllm:kv_cache_usage_perc', 'vllm:gpu_cache_usage_perc']) add(usage, `${vllm} part of the context that requests at work take, 0 to 1.`, all.kvUsage, ofModel);
  for (const cache of ['vllm:prefix_cache', 'vllm:gpu_prefix_cache']) {
    add(`${cache}_queries_total`, `${vllm} tokens of prompts that were looked for in the cache.`, all.looked, ofModel);
    add(`${cache}_hits_total`, `${vllm} tokens of prompts that were found in the cache.`, all.cached, ofModel);
  }
  add('vllm:prompt_tokens_total', `${vllm} tokens of prompts.`, all.prompt, ofModel);
  add('vllm:generation_tokens_total', `${vllm} generated tokens.`, all.generated, ofModel);
  add('vllm:request_success_total', `${vllm} answers by how they ended.`, all.answers, (labels) => ({ ...ofModel(labels), finished_reason: reasons[labels['finish_reason']!] ?? labels['finish_reason']! }));
  add('vllm:time_to_first_token_seconds', `${vllm} time until the first piece of an answer.`, all.firstToken, ofModel);
  for (const gap of ['vllm:inter_token_latency_seconds', 'vllm:time_per_output_token_seconds']) add(gap, `${vllm} time between two pieces of an answer.`, all.gap, ofModel);
  add('vllm:e2e_request_latency_seconds', `${vllm} time of whole requests.`, all.duration, ofModel);
  add('vllm:request_queue_time_seconds', `${vllm} time of waiting.`, all.queue, ofModel);
  add('vllm:request_prefill_time_seconds', `${vllm} time of reading prompts.`, all.reading, ofModel);
  add('vllm:request_decode_time_seconds', `${vllm} time of generating.`, all.generating, ofModel);
  add('vllm:request_prompt_tokens', `${vllm} tokens of a prompt.`, all.promptLength, ofModel);
  add('vllm:request_generation_tokens', `${vllm} tokens of an answer.`, all.answerLength, ofModel);
}

/** Of all its series; of a histogram what was observed, added up. */
async function total(metric: Original): Promise<number> {
  const { values } = await metric.get();
  const sums = (values as readonly Value[]).filter(({ metricName }) => metricName === undefined || metricName.endsWith('_sum'));
  return sums.reduce((sum, { value }) => sum + value, 0);
}

/** Buckets are cumulative in each series, so their sums are, too. */
function summed(values: readonly Value[], name: string, relabel: Relabel): Value[] {
  const sums = new Map<string, Value>();
  for (const { value, labels, metricName } of values) {
    const ending = metricName === undefined ? '' : /_(?:bucket|sum|count)$/.exec(metricName)![0];
    const kept = relabel(labels);
    const at = JSON.stringify([ending, kept]);
    const sum = sums.get(at);
    if (sum) sum.value += value;
    else sums.set(at, { value, labels: kept, ...(ending === '' ? {} : { metricName: name + ending }) });
  }
  return [...sums.values()];
}
