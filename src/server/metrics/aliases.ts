// The metric names of llama-server and vLLM, for dashboards and routers made for those. They are
// computed from the instruments on each scrape. llama-server's have no labels; vLLM's have
// `model_name` and `engine`. Built by metrics.
import type { Metric, Registry } from 'prom-client';
import type { Instruments } from './instruments.js';
import { KeyCounter } from './key-counter.js';

type Labels = Readonly<Record<string, string | number>>;
type Original = Pick<Metric, 'get'>;

interface Value {
  value: number;
  labels: Labels;
  /** Name of the line of a histogram. */
  metricName?: string;
}

/** Maps an original's labels. Values with the same resulting labels are summed. */
type Relabel = (labels: Labels) => Labels;

const ofModel: Relabel = ({ model = '', le }) => ({ model_name: model, engine: '0', ...(le === undefined ? {} : { le }) });

/** vLLM's finish reasons, where they differ. */
const reasons: Readonly<Record<string, string>> = { tool_calls: 'stop', cancelled: 'abort' };

export function addAliases(registry: Registry, all: Instruments): void {
  /** Registers a metric that is computed when the registry reads it. */
  const register = (name: string, help: string, read: () => Promise<{ type: string; values: readonly Value[] }>): void => {
    const get = async () => ({ name, help, ...await read(), aggregator: 'sum' });
    registry.registerMetric({ name, help, get } as unknown as Metric);
  };
  const add = (name: string, help: string, original: Original, relabel: Relabel): void => register(name, help, async () => {
    const { type, values } = await read(original);
    return { type: String(type), values: summed(values as readonly Value[], name, relabel) };
  });
  const sum = (name: string, type: 'counter' | 'gauge', help: string, read: () => Promise<number>): void => (
    register(name, help, async () => ({ type, values: [{ value: await read(), labels: {} }] }))
  );

  const llama = "llama-server's metric, over all models:";
  sum('llamacpp:prompt_tokens_total', 'counter', `${llama} prompt tokens evaluated.`, async () => await total(all.prompt) - await total(all.cached));
  sum('llamacpp:prompt_tokens_cached_total', 'counter', `${llama} prompt tokens from the cache.`, () => total(all.cached));
  sum('llamacpp:prompt_seconds_total', 'counter', `${llama} seconds of prefill.`, () => total(all.reading));
  sum('llamacpp:tokens_predicted_total', 'counter', `${llama} generated tokens.`, () => total(all.generated));
  sum('llamacpp:tokens_predicted_seconds_total', 'counter', `${llama} seconds of decode.`, () => total(all.generating));
  sum('llamacpp:spec_decode_num_draft_tokens_total', 'counter', `${llama} drafted tokens.`, () => total(all.drafted));
  sum('llamacpp:spec_decode_num_accepted_tokens_total', 'counter', `${llama} drafted tokens that were accepted.`, () => total(all.accepted));
  sum('llamacpp:prompt_tokens_seconds', 'gauge', `${llama} prompt tokens evaluated per second of prefill.`, async () => (await total(all.looked) - await total(all.cached)) / (await total(all.reading) || 1));
  sum('llamacpp:predicted_tokens_seconds', 'gauge', `${llama} tokens generated per second.`, () => total(all.speed));
  sum('llamacpp:requests_processing', 'gauge', `${llama} running requests.`, () => total(all.running));
  sum('llamacpp:requests_deferred', 'gauge', `${llama} queued requests.`, () => total(all.waiting));
  sum('llamacpp:kv_cache_tokens', 'gauge', `${llama} tokens of running requests in the KV cache.`, () => total(all.kvUsed));
  sum('llamacpp:kv_cache_usage_ratio', 'gauge', `${llama} share of the KV cache that running requests use, 0 to 1.`, async () => await total(all.kvUsed) / (await total(all.kvSize) || 1));

  const vllm = "vLLM's metric:";
  add('vllm:num_requests_running', `${vllm} running requests.`, all.running, ofModel);
  add('vllm:num_requests_waiting', `${vllm} queued requests.`, all.waiting, ofModel);
  for (const usage of ['vllm:kv_cache_usage_perc', 'vllm:gpu_cache_usage_perc']) add(usage, `${vllm} share of the KV cache that running requests use, 0 to 1.`, all.kvUsage, ofModel);
  for (const cache of ['vllm:prefix_cache', 'vllm:gpu_prefix_cache']) {
    add(`${cache}_queries_total`, `${vllm} prompt tokens looked up in the cache.`, all.looked, ofModel);
    add(`${cache}_hits_total`, `${vllm} prompt tokens found in the cache.`, all.cached, ofModel);
  }
  add('vllm:prompt_tokens_total', `${vllm} prompt tokens.`, all.prompt, ofModel);
  add('vllm:generation_tokens_total', `${vllm} generated tokens.`, all.generated, ofModel);
  add('vllm:request_success_total', `${vllm} answers by finish reason.`, all.answers, (labels) => ({ ...ofModel(labels), finished_reason: reasons[labels['finish_reason']!] ?? labels['finish_reason']! }));
  add('vllm:time_to_first_token_seconds', `${vllm} time until the first piece of an answer.`, all.firstToken, ofModel);
  for (const gap of ['vllm:inter_token_latency_seconds', 'vllm:time_per_output_token_seconds']) add(gap, `${vllm} time between two pieces of an answer.`, all.gap, ofModel);
  add('vllm:e2e_request_latency_seconds', `${vllm} time of complete requests.`, all.duration, ofModel);
  add('vllm:request_queue_time_seconds', `${vllm} time in the queue.`, all.queue, ofModel);
  add('vllm:request_prefill_time_seconds', `${vllm} time of prefill.`, all.reading, ofModel);
  add('vllm:request_decode_time_seconds', `${vllm} time of decode.`, all.generating, ofModel);
  add('vllm:request_prompt_tokens', `${vllm} tokens of a prompt.`, all.promptLength, ofModel);
  add('vllm:request_generation_tokens', `${vllm} tokens of an answer.`, all.answerLength, ofModel);
}

/** No alias has a label for keys. */
const read = (metric: Original): ReturnType<Original['get']> => (metric instanceof KeyCounter ? metric.getAll() : metric.get());

/** The sum over all series of a metric; for a histogram, of its observations. */
async function total(metric: Original): Promise<number> {
  const { values } = await read(metric);
  const sums = (values as readonly Value[]).filter(({ metricName }) => metricName === undefined || metricName.endsWith('_sum'));
  return sums.reduce((sum, { value }) => sum + value, 0);
}

/** Buckets are cumulative in each series, so sums of them are, too. */
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
