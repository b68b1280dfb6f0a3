// The metrics of one server by its own names, in a registry of its own: several servers of one
// process do not mix. Every label is bounded: `model` is a model that was served, `route` a pattern
// of the API, `key` the name of an API key, the others words of a list. Built by metrics.
import { Counter, Gauge, Histogram, type Registry } from 'prom-client';

/** Seconds from a fast step to a long queue. */
const waits = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300];
const gaps = [0.001, 0.0025, 0.005, 0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.15, 0.25, 0.5, 1, 2.5, 5];
const lengths = [1, 4, 16, 64, 256, 1_024, 4_096, 16_384, 65_536, 262_144];

/** Of histograms: each of their series has a line for each bucket, so keys stay out of them. */
const byRoute = ['model', 'route'] as const;
const byKey = ['model', 'route', 'key'] as const;

export type Instruments = ReturnType<typeof makeInstruments>;

export function makeInstruments(registry: Registry) {
  const registers = [registry];
  const histogram = (name: string, help: string, buckets: number[]) => new Histogram({ name, help, buckets, labelNames: byRoute, registers });
  const counter = <Label extends string>(name: string, help: string, labelNames: readonly Label[] = []) => new Counter({ name, help, labelNames, registers });
  const gauge = <Label extends string>(name: string, help: string, labelNames: readonly Label[] = []) => new Gauge({ name, help, labelNames, registers });
  return {
    queue: histogram('recua_queue_seconds', 'Time that a request waited for its model and its turn, until its first step.', waits),
    firstToken: histogram('recua_time_to_first_token_seconds', 'Time from a request until the first piece of its answer.', waits),
    gap: histogram('recua_inter_token_seconds', 'Time between two pieces of an answer.', gaps),
    duration: histogram('recua_request_duration_seconds', 'Time from a request that a model answers to the end of its answer.', waits),
    reading: histogram('recua_prompt_seconds', 'Time from the first step with a prompt to the first token.', waits),
    generating: histogram('recua_generation_seconds', 'Time from the first token of an answer to its last.', waits),
    promptLength: histogram('recua_prompt_length_tokens', 'Tokens of the prompt of an answer.', lengths),
    answerLength: histogram('recua_answer_length_tokens', 'Tokens of an answer.', lengths),

    requests: counter('recua_requests_total', 'HTTP requests by what became of them; status 499: the client left before the end.', [...byKey, 'status']),
    answers: counter('recua_answers_total', 'Generated answers by how they ended: stop, length, tool_calls, cancelled or error.', [...byKey, 'finish_reason']),
    prompt: counter('recua_prompt_tokens_total', 'Tokens of prompts and of texts to embed or rank, those from the cache included.', byKey),
    cached: counter('recua_cached_prompt_tokens_total', 'Tokens of prompts that were not computed anew.', byKey),
    looked: counter('recua_cache_lookup_tokens_total', 'Tokens of the prompts of complete answers, which were looked for in the cache.', ['model']),
    generated: counter('recua_generated_tokens_total', 'Tokens of complete answers.', byKey),
    drafted: counter('recua_drafted_tokens_total', 'Tokens that were guessed ahead.', ['model']),
    accepted: counter('recua_accepted_tokens_total', 'Tokens that were guessed ahead and came true.', ['model']),
    cancellations: counter('recua_cancellations_total', 'Requests whose client left before the answer was complete: waiting, before its first piece, or answering.', [...byKey, 'phase']),
    rejections: counter('recua_rejections_total', 'Requests that were turned away by status 401, 403, 429 or 503, by the code of the error.', ['route', 'code']),
    errors: counter('recua_errors_total', 'Requests that ended with an error, by its code.', ['model', 'route', 'code']),
    crashes: counter('recua_engine_crashes_total', 'Engine processes that ended without being told to.', ['model']),
    loads: counter('recua_model_loads_total', 'How often a model became ready to answer.', ['model']),
    reloads: counter('recua_model_reloads_total', 'How often a model became ready to answer again, after a crash or after it was unloaded.', ['model']),

    running: gauge('recua_requests_running', 'Requests that a model works on.', ['model']),
    waiting: gauge('recua_requests_waiting', 'Requests that wait for a model or for their turn.', ['model']),
    open: gauge('recua_requests_open', 'Requests that came to work and are not answered yet, of all models.'),
    kvUsed: gauge('recua_kv_used_tokens', 'Tokens of requests at work whose keys and values lie in the context.', ['model']),
    kvKept: gauge('recua_kv_kept_tokens', 'Tokens of earlier conversations that lie in the context and give way where room is needed.', ['model']),
    kvSize: gauge('recua_kv_size_tokens', 'Tokens that the context has room for.', ['model']),
    kvUsage: gauge('recua_kv_usage_ratio', 'Part of the context that requests at work take, 0 to 1.', ['model']),
    speed: gauge('recua_generated_tokens_per_second', 'Tokens generated per second, of all answers together, over the last seconds.', ['model']),
    memory: gauge('recua_model_memory_bytes', 'Memory of the machine that a loaded model takes, or is expected to take.', ['model']),
    models: gauge('recua_models', 'Models that requests may name, by state.', ['state']),
    bodies: gauge('recua_body_memory_bytes', 'Memory that request bodies take.'),
    draining: gauge('recua_draining', '1 while the server stops and takes no new work.'),
    build: gauge('recua_build_info', 'Always 1.', ['version']),
    processMemory: gauge('process_resident_memory_bytes', "Resident memory of the server's own process, without its engines."),
    processStart: gauge('process_start_time_seconds', "When the server's process began, in seconds since 1970."),
    processCpu: counter('process_cpu_seconds_total', "Time that the server's own process computed."),
  };
}
