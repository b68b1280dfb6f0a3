// The metrics of one server, under Recua's names. Each server has its own registry, so several
// servers in one process do not mix. The values of every label are bounded: `model` is a served
// model, `route` a pattern of the API, `key` the name of an API key, the others are fixed words.
// Built by metrics.
import { Counter, Gauge, Histogram, type Registry } from 'prom-client';
import { KeyCounter } from './key-counter.js';

/** Seconds from a fast step to a long queue. */
const waits = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300];
const gaps = [0.001, 0.0025, 0.005, 0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.15, 0.25, 0.5, 1, 2.5, 5];
const lengths = [1, 4, 16, 64, 256, 1_024, 4_096, 16_384, 65_536, 262_144];

/** Histograms have a line per bucket and series, and so no label for keys. */
const byRoute = ['model', 'route'] as const;

export type Instruments = ReturnType<typeof makeInstruments>;

export function makeInstruments(registry: Registry) {
  const registers = [registry];
  const histogram = (name: string, help: string, buckets: number[]) =>
    new Histogram({ name, help, buckets, labelNames: byRoute, registers });
  const counter = <Label extends string>(name: string, help: string, labelNames: readonly Label[] = []) =>
    new Counter({ name, help, labelNames, registers });
  const keyCounter = <Label extends string>(name: string, help: string, labelNames: readonly Label[] = []) =>
    new KeyCounter({ name, help, labelNames: [...byRoute, ...labelNames], registers });
  const gauge = <Label extends string>(name: string, help: string, labelNames: readonly Label[] = []) =>
    new Gauge({ name, help, labelNames, registers });
  return {
    queue: histogram('recua_queue_seconds', 'Time from a request to its first step: waiting for its model and in the queue.', waits),
    firstToken: histogram('recua_time_to_first_token_seconds', 'Time from a request to the first piece of its answer.', waits),
    gap: histogram('recua_inter_token_seconds', 'Time between two pieces of an answer.', gaps),
    duration: histogram('recua_request_duration_seconds', 'Time from a request to a model to the end of its answer.', waits),
    reading: histogram('recua_prompt_seconds', 'Time from the first step with a prompt to the first token.', waits),
    generating: histogram('recua_generation_seconds', 'Time from the first token of an answer to its last.', waits),
    promptLength: histogram('recua_prompt_length_tokens', 'Tokens of the prompt of an answer.', lengths),
    answerLength: histogram('recua_answer_length_tokens', 'Tokens of an answer.', lengths),

    requests: keyCounter('recua_requests_total', 'HTTP requests by status; 499: the client left before the end.', ['status']),
    answers: keyCounter('recua_answers_total', 'Generated answers by finish reason: stop, length, tool_calls, cancelled or error.', ['finish_reason']),
    prompt: keyCounter('recua_prompt_tokens_total', 'Tokens of prompts and of texts to embed or rank, including cached ones.'),
    cached: keyCounter('recua_cached_prompt_tokens_total', 'Prompt tokens reused from the cache.'),
    looked: counter('recua_cache_lookup_tokens_total', 'Prompt tokens of complete answers, which were looked up in the cache.', ['model']),
    generated: keyCounter('recua_generated_tokens_total', 'Tokens of complete answers.'),
    drafted: counter('recua_drafted_tokens_total', 'Drafted tokens.', ['model']),
    accepted: counter('recua_accepted_tokens_total', 'Drafted tokens that were accepted.', ['model']),
    cancellations: keyCounter('recua_cancellations_total', 'Requests whose client left before the answer was complete. Phase waiting: before its first piece; answering: after it.', ['phase']),
    rejections: counter('recua_rejections_total', 'Requests rejected with status 401, 403, 429 or 503, by error code.', ['route', 'code']),
    errors: counter('recua_errors_total', 'Requests that ended with an error, by error code.', ['model', 'route', 'code']),
    crashes: counter('recua_engine_crashes_total', 'Engine processes that ended unexpectedly.', ['model']),
    loads: counter('recua_model_loads_total', 'How often a model finished loading.', ['model']),
    reloads: counter('recua_model_reloads_total', 'How often a model finished loading again, after a crash or an unload.', ['model']),

    running: gauge('recua_requests_running', 'Requests that a model is running.', ['model']),
    waiting: gauge('recua_requests_waiting', 'Requests that wait for a model to load or in its queue.', ['model']),
    open: gauge('recua_requests_open', 'Unfinished requests, of all models.'),
    kvUsed: gauge('recua_kv_used_tokens', 'Tokens of running requests in the KV cache.', ['model']),
    kvKept: gauge('recua_kv_kept_tokens', 'Tokens of earlier conversations in the KV cache, evicted when room is needed.', ['model']),
    kvSize: gauge('recua_kv_size_tokens', 'Capacity of the KV cache, in tokens.', ['model']),
    kvUsage: gauge('recua_kv_usage_ratio', 'Share of the KV cache that running requests use, 0 to 1.', ['model']),
    speed: gauge('recua_generated_tokens_per_second', 'Tokens generated per second over the last seconds, by all answers together.', ['model']),
    memory: gauge('recua_model_memory_bytes', 'Main memory that a loaded model takes, or is expected to take.', ['model']),
    deviceMemory: gauge('recua_model_device_memory_bytes', 'Memory that a loaded model takes on GPUs.', ['model']),
    models: gauge('recua_models', 'Models that requests can name, by state.', ['state']),
    bodies: gauge('recua_body_memory_bytes', 'Memory of request bodies.'),
    draining: gauge('recua_draining', '1 while the server is stopping and refuses new work.'),
    build: gauge('recua_build_info', 'Always 1.', ['version']),
    processMemory: gauge('process_resident_memory_bytes', "Resident memory of the server's own process, without its engines."),
    processStart: gauge('process_start_time_seconds', "When the server's process started, in seconds since 1970."),
    processCpu: counter('process_cpu_seconds_total', "CPU time of the server's own process."),
  };
}
