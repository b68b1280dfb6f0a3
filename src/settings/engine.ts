// How a model is loaded: fixed for the life of an engine process. A new entry becomes a flag of
// each command that starts an engine, an option of loadModel(), and a value in the engine's
// options, all at once. Only the code that uses it remains to be written.
import { maxCount, secondMs, type Settings } from './kinds.js';

// Plain strings, not literal types: llama.cpp may add more.
const cacheTypes: readonly [string, ...string[]] = [
  'f16', 'f32', 'bf16', 'q8_0', 'q4_0', 'q4_1', 'iq4_nl', 'q5_0', 'q5_1',
];

/** For concurrent requests. `run` and `chat` run one request at a time and take none of these. */
export const sharingSettings = {
  /** Answers that run at once, each with its own context; further answers wait. Default 4. */
  parallel: {
    kind: 'integer', fallback: 4, min: 1, max: 256,
    flag: { names: ['--parallel', '-np'], help: 'Run this many requests at once' },
  },
  /** Answers that may wait to run; further answers reject with `queue_full`. Default 512. */
  queueSize: {
    kind: 'integer', fallback: 512, min: 0, max: 1_000_000,
    flag: { names: ['--queue-size'], help: 'Queue this many further requests; refuse the rest' },
  },
  /**
   * Milliseconds an answer may wait for a place before it rejects with `queue_timeout`. Loading the
   * model, first or after a crash, does not count. Default 0: no limit.
   */
  queueTimeoutMs: {
    kind: 'integer', fallback: 0, min: 0, max: 86_400 * secondMs,
    flag: {
      names: ['--queue-timeout'], value: 'seconds', key: 'queueTimeoutSeconds', unit: secondMs,
      help: 'Refuse a request that has waited this long in the queue; 0 means no limit',
    },
  },
} as const satisfies Settings;

/** In the order of help. */
export const engineSettings = {
  /**
   * Tokens that one conversation can hold, prompt and answer together. 0 means the model's training
   * size, which is also the maximum. Default 4096.
   */
  contextSize: {
    kind: 'integer', fallback: 4096, min: 0, max: maxCount,
    flag: {
      names: ['--ctx-size', '-c', '--context-size'],
      help: 'Give each request a context of this many tokens, prompt and answer together; 0 means '
        + 'the model\'s training size',
    },
  },
  /**
   * Layers to compute on GPUs: −1 for all, `'auto'` for as many as fit. Default 0, or `'auto'` with
   * `device` or `requireGpu`.
   */
  gpuLayers: {
    kind: 'integer', fallback: 0, min: -1, max: 100_000, words: { auto: 'auto', all: -1 },
    flag: {
      names: ['--gpu-layers', '-ngl', '--n-gpu-layers'],
      help: 'Offload this many layers to GPUs; auto (implied by --device and --require-gpu) means '
        + 'as many as free GPU memory holds, all or -1 means every layer',
    },
  },
  /**
   * GPUs to use, comma-separated, as `recua run --list-devices` names them; `'none'` means CPU
   * only. Default: all GPUs.
   */
  device: {
    kind: 'text', fallback: '',
    flag: {
      names: ['--device', '-dev'], value: 'names',
      help: 'Use these GPUs, comma-separated, as --list-devices names them; none means CPU only; '
        + 'by default all GPUs share the layers that --gpu-layers gives them',
    },
  },
  /** Rejects with `gpu_unavailable` if no GPU would be used. Default `false`. */
  requireGpu: {
    kind: 'switch', fallback: false,
    flag: { names: ['--require-gpu'], help: 'Fail, and say why, if no GPU would be used' },
  },
  /** Threads that generate tokens. Default 0: one per physical core. */
  threads: {
    kind: 'integer', fallback: 0, min: 0, max: 1024,
    flag: {
      names: ['--threads', '-t'],
      help: 'Generate tokens with this many threads; 0 means one per physical core',
    },
  },
  /** Threads that read prompts. Default 0: as many as `threads`. */
  threadsBatch: {
    kind: 'integer', fallback: 0, min: 0, max: 1024,
    flag: {
      names: ['--threads-batch', '-tb'],
      help: 'Read prompts with this many threads; 0 means as many as --threads',
    },
  },
  /** Maximum tokens in one step, all answers together. Default 2048. */
  batchSize: {
    kind: 'integer', fallback: 2048, min: 1, max: 1 << 20,
    flag: { names: ['--batch-size', '-b'], help: 'Evaluate at most this many tokens per step' },
  },
  /** Maximum tokens in one forward pass. Default 512. */
  microBatchSize: {
    kind: 'integer', fallback: 512, min: 1, max: 1 << 20,
    flag: {
      names: ['--ubatch-size', '-ub'], help: 'Evaluate at most this many tokens per forward pass',
    },
  },
  /**
   * Longest pause of a running answer, in milliseconds, from its fifth token on, while prompts are
   * read. A machine that reads prompts slowly may exceed it. Default 250.
   */
  maxStallMs: {
    kind: 'integer', fallback: 250, min: 1, max: 60_000,
    flag: {
      names: ['--max-stall-ms'], value: 'ms',
      help: 'Pause a running answer at most this long, from its fifth token on, while prompts are '
        + 'read (a slow machine may exceed it); lower is smoother, higher reads prompts sooner',
    },
  },
  /** Whether to use flash attention. Default `'auto'`. */
  flashAttention: {
    kind: 'choice', fallback: 'auto', choices: ['auto', 'on', 'off'],
    flag: { names: ['--flash-attn', '-fa'], help: 'Use flash attention' },
  },
  /**
   * Which code computes attention on the CPU. `'auto'`, the default, means Recua's own wherever it
   * has one, which is faster for long contexts; `'ggml'` always means ggml. With layers on a GPU,
   * ggml computes all attention.
   */
  attention: {
    kind: 'choice', fallback: 'auto', choices: ['auto', 'ggml'],
    flag: {
      names: ['--attention'],
      help: 'Compute attention on the CPU with this code; auto prefers Recua\'s own, which is '
        + 'faster for long contexts',
    },
  },
  /**
   * Which code multiplies quantized weights on the CPU. `'auto'`, the default, means Recua's own
   * wherever it has one, which is faster for prompts and for several requests at once; `'ggml'`
   * always means ggml. With layers on a GPU, ggml multiplies.
   */
  matmul: {
    kind: 'choice', fallback: 'auto', choices: ['auto', 'ggml'],
    flag: {
      names: ['--matmul'],
      help: 'Multiply quantized weights on the CPU with this code; auto prefers Recua\'s own, which '
        + 'is faster for prompts and for several requests at once',
    },
  },
  /**
   * Whether to restrict the engine process to computing, on Linux. `'auto'`, the default, means off
   * in programs that use the library. (In the commands of `recua` it means on, if the kernel can
   * enforce it and no layer goes to a GPU, whose driver needs more rights.) `'on'` refuses to load
   * if the kernel cannot enforce it.
   */
  sandbox: {
    kind: 'choice', fallback: 'auto', choices: ['auto', 'on', 'off'],
    flag: {
      names: ['--sandbox'],
      help: 'Restrict the engine process to computing: it reads the model, writes only where you '
        + 'keep conversations, runs no program and has no network; auto does so if Linux can '
        + 'enforce it and no GPU is used',
    },
  },
  /**
   * Data type of cached keys: `'f16'` (the default), `'f32'`, `'bf16'`, `'q8_0'`, `'q4_0'`,
   * `'q4_1'`, `'iq4_nl'`, `'q5_0'`, `'q5_1'`.
   */
  cacheTypeK: {
    kind: 'choice', fallback: 'f16', choices: cacheTypes,
    flag: { names: ['--cache-type-k', '-ctk'], help: 'Store cached keys as this data type' },
  },
  /** Data type of cached values; takes the same values as `cacheTypeK`. */
  cacheTypeV: {
    kind: 'choice', fallback: 'f16', choices: cacheTypes,
    flag: { names: ['--cache-type-v', '-ctv'], help: 'Store cached values as this data type' },
  },
  /**
   * Memory in MiB for conversations that others displaced from the context; 0 keeps none. Default
   * −1: an eighth of the machine's memory, at most 8 GiB, which the models of a server or of
   * `openModels` share.
   */
  cacheRamMib: {
    kind: 'integer', fallback: -1, min: -1, max: 1 << 24,
    flag: {
      names: ['--cache-ram', '-cram'], value: 'mib',
      help: 'Use this much memory to keep the KV cache of conversations that were displaced by '
        + 'others; 0 keeps none, -1 means an eighth of the machine\'s memory, at most 8 GiB, '
        + 'which the models of a server share',
    },
  },
  /**
   * `'ngram-simple'` guesses that earlier text of the prompt or the answer repeats, and evaluates
   * the guessed tokens together when that saves time. The answers stay the same, up to rounding,
   * and come faster where they quote or repeat. Models with sliding windows or recurrent layers
   * ignore it. Default `'none'`.
   */
  specType: {
    kind: 'choice', fallback: 'none', choices: ['none', 'ngram-simple'],
    flag: {
      names: ['--spec-type'],
      help: 'Guess tokens ahead; ngram-simple guesses that earlier text of the prompt or the '
        + 'answer repeats; the answers stay the same, and come faster where it does; models with '
        + 'sliding windows or recurrent layers ignore it',
    },
  },
  /** Maximum tokens guessed ahead at a time. Default 16. */
  specDraftMax: {
    kind: 'integer', fallback: 16, min: 1, max: 64,
    flag: {
      names: ['--spec-draft-n-max', '--spec-ngram-simple-size-m'],
      help: 'Guess at most this many tokens ahead at a time',
    },
  },
  /** `false` reads the file into memory instead of mapping it. Default `true`. */
  mmap: {
    kind: 'switch', fallback: true,
    flag: { names: ['--no-mmap'], help: 'Read the file into memory instead of mapping it' },
  },
  /** Keep the model from being swapped out. Default `false`. */
  mlock: {
    kind: 'switch', fallback: false,
    flag: { names: ['--mlock'], help: 'Keep the model from being swapped out' },
  },
  /**
   * Where threads run on a machine with several NUMA nodes: on all nodes (`'distribute'`), on the
   * node where the engine starts (`'isolate'`), or as numactl says (`'numactl'`). All models of a
   * process share one choice. Default `'none'`.
   */
  numa: {
    kind: 'choice', fallback: 'none', choices: ['none', 'distribute', 'isolate', 'numactl'],
    flag: {
      names: ['--numa'],
      help: 'On a machine with several NUMA nodes, run threads on all of them (distribute), on the '
        + 'one where the engine starts (isolate), or as numactl says',
    },
  },
  /**
   * How embeddings are pooled. `'auto'`, the default, follows the model file, or uses the mean if
   * the file names no pooling. `'rank'` is for rerankers.
   */
  pooling: {
    kind: 'choice', fallback: 'auto', choices: ['auto', 'none', 'mean', 'cls', 'last', 'rank'],
    flag: {
      names: ['--pooling'],
      help: 'Pool embeddings this way; auto follows the model file',
    },
  },
  /** Jinja source of a chat template that replaces the model's own. */
  chatTemplate: {
    kind: 'text', fallback: '',
    flag: {
      names: ['--chat-template-file'], value: 'file', key: 'chatTemplateFile', file: true,
      help: 'Use this Jinja chat template instead of the model\'s own',
    },
  },
} as const satisfies Settings;
