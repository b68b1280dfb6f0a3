// How a model is loaded: fixed for the life of an engine process. A new entry is at once a flag of
// each command that starts an engine and an option of loadModel(), and its value is among the
// engine's options; what remains is to use it there.
import { maxCount, secondMs, type Settings } from './kinds.js';

// Not their names but texts, to the compiler: llama.cpp may learn others.
const cacheTypes: readonly [string, ...string[]] = [
  'f16', 'f32', 'bf16', 'q8_0', 'q4_0', 'q4_1', 'iq4_nl', 'q5_0', 'q5_1',
];

/** For several requests at once: `run` and `chat`, which have one, take none of these. */
export const sharingSettings = {
  /** Answers that run at once, each with a context of its own; more wait. Default 4. */
  parallel: {
    kind: 'integer', fallback: 4, min: 1, max: 256,
    flag: { names: ['--parallel', '-np'], help: 'Requests that run at once' },
  },
  /** Answers that may wait beyond those that run; more reject with `queue_full`. Default 512. */
  queueSize: {
    kind: 'integer', fallback: 512, min: 0, max: 1_000_000,
    flag: { names: ['--queue-size'], help: 'Requests that may wait beyond those' },
  },
  /**
   * Milliseconds that an answer may wait before it begins; then it rejects with `queue_timeout`. 0,
   * the default, is without a bound.
   */
  queueTimeoutMs: {
    kind: 'integer', fallback: 0, min: 0, max: 86_400 * secondMs,
    flag: {
      names: ['--queue-timeout'], value: 'seconds', key: 'queueTimeoutSeconds', unit: secondMs,
      help: 'How long a request may wait for others before it is refused; 0 is as long as it takes',
    },
  },
} as const satisfies Settings;

/** In the order of help. */
export const engineSettings = {
  /**
   * Tokens that one conversation can hold, prompt and answer; 0 is what the model was trained on,
   * which is also the most. Default 4096.
   */
  contextSize: {
    kind: 'integer', fallback: 4096, min: 0, max: maxCount,
    flag: {
      names: ['--ctx-size', '-c', '--context-size'],
      help: 'Tokens one request can hold, prompt and answer; 0 is the model\'s training size',
    },
  },
  /**
   * Layers to compute on GPUs, −1 for all, `'auto'` for as many as fit. Default 0; with `device` or
   * `requireGpu` it is `'auto'`.
   */
  gpuLayers: {
    kind: 'integer', fallback: 0, min: -1, max: 100_000, words: { auto: 'auto', all: -1 },
    flag: {
      names: ['--gpu-layers', '-ngl', '--n-gpu-layers'],
      help: 'Layers to offload to GPUs; auto (meant by --device and --require-gpu) is as many as '
        + 'their free memory holds, '
        + 'all or -1 is every one',
    },
  },
  /**
   * GPUs to use, as `recua run --list-devices` names them, with commas between; `'none'` is the CPU
   * alone. Default: all there are.
   */
  device: {
    kind: 'text', fallback: '',
    flag: {
      names: ['--device', '-dev'], value: 'names',
      help: 'GPUs to use, as --list-devices names them, with commas between; none is the CPU '
        + 'alone, and without the flag all are used',
    },
  },
  /** Rejects with `gpu_unavailable` where no GPU would compute. Default `false`. */
  requireGpu: {
    kind: 'switch', fallback: false,
    flag: { names: ['--require-gpu'], help: 'Fail where no GPU would compute, and say why' },
  },
  /** Threads to generate with; 0, the default, is one per physical core. */
  threads: {
    kind: 'integer', fallback: 0, min: 0, max: 1024,
    flag: {
      names: ['--threads', '-t'],
      help: 'Threads to generate with; 0 is one per physical core',
    },
  },
  /** Threads to read prompts with; 0, the default, is the same as `threads`. */
  threadsBatch: {
    kind: 'integer', fallback: 0, min: 0, max: 1024,
    flag: {
      names: ['--threads-batch', '-tb'],
      help: 'Threads to read prompts with; 0 is the same as --threads',
    },
  },
  /** Most tokens in one step of all answers together. Default 2048. */
  batchSize: {
    kind: 'integer', fallback: 2048, min: 1, max: 1 << 20,
    flag: { names: ['--batch-size', '-b'], help: 'Most tokens in one step' },
  },
  /** Most tokens in one forward pass. Default 512. */
  microBatchSize: {
    kind: 'integer', fallback: 512, min: 1, max: 1 << 20,
    flag: { names: ['--ubatch-size', '-ub'], help: 'Most tokens in one forward pass' },
  },
  /**
   * Longest wait of a running answer in milliseconds, from its fifth token on, while prompts are
   * read. Default 250.
   */
  maxStallMs: {
    kind: 'integer', fallback: 250, min: 1, max: 60_000,
    flag: {
      names: ['--max-stall-ms'], value: 'ms',
      help: 'Longest wait of a running answer, from its fifth token on, while prompts are read, '
        + 'or what 64 of their tokens take; '
        + 'shorter is smoother, longer reads prompts sooner',
    },
  },
  /** Default `'auto'`. */
  flashAttention: {
    kind: 'choice', fallback: 'auto', choices: ['auto', 'on', 'off'],
    flag: { names: ['--flash-attn', '-fa'], help: 'Flash attention' },
  },
  /**
   * Who computes attention on the processor: `'auto'`, the default, is Recua where it has code for
   * it, faster behind long contexts; `'ggml'` is always ggml. With layers on a GPU all is ggml's.
   */
  attention: {
    kind: 'choice', fallback: 'auto', choices: ['auto', 'ggml'],
    flag: {
      names: ['--attention'],
      help: 'Who computes attention on the processor; auto is Recua itself, faster behind long contexts',
    },
  },
  /**
   * Whether the engine process may do no more than compute, on Linux: `'auto'`, the default, is yes
   * where the kernel can see to it and no layer is to go to a GPU, whose drivers need more; `'on'`
   * refuses to load where it can't. For programs that use the library `'auto'` is no.
   */
  sandbox: {
    kind: 'choice', fallback: 'auto', choices: ['auto', 'on', 'off'],
    flag: {
      names: ['--sandbox'],
      help: 'Whether the engine process may do no more than compute: it reads the model, writes '
        + 'where you had it keep conversations, runs no program and has no network; auto is where '
        + 'Linux can see to it and no GPU is used',
    },
  },
  /**
   * Data type of cached keys: `'f16'` (the default), `'f32'`, `'bf16'`, `'q8_0'`, `'q4_0'`,
   * `'q4_1'`, `'iq4_nl'`, `'q5_0'`, `'q5_1'`.
   */
  cacheTypeK: {
    kind: 'choice', fallback: 'f16', choices: cacheTypes,
    flag: { names: ['--cache-type-k', '-ctk'], help: 'Data type of cached keys' },
  },
  /** Data type of cached values, as `cacheTypeK`. */
  cacheTypeV: {
    kind: 'choice', fallback: 'f16', choices: cacheTypes,
    flag: { names: ['--cache-type-v', '-ctv'], help: 'Data type of cached values' },
  },
  /**
   * MiB of memory for conversations that had to leave their context; 0 keeps none, −1, the default,
   * is an eighth of all.
   */
  cacheRamMib: {
    kind: 'integer', fallback: -1, min: -1, max: 1 << 24,
    flag: {
      names: ['--cache-ram', '-cram'], value: 'mib',
      help: 'Memory for conversations that had to leave their sequence; 0 keeps none, -1 is an '
        + 'eighth of all',
    },
  },
  /**
   * `'ngram-simple'` guesses tokens ahead from what the prompt and the answer repeat, and evaluates
   * them together where that pays. The answers are the same, and come faster where they quote or
   * repeat. Default `'none'`.
   */
  specType: {
    kind: 'choice', fallback: 'none', choices: ['none', 'ngram-simple'],
    flag: {
      names: ['--spec-type'],
      help: 'Guess tokens ahead; ngram-simple takes them from what the prompt and the answer '
        + 'repeat, and gives the same answers faster',
    },
  },
  /** Most tokens guessed ahead at a time. Default 16. */
  specDraftMax: {
    kind: 'integer', fallback: 16, min: 1, max: 64,
    flag: {
      names: ['--spec-draft-n-max', '--spec-ngram-simple-size-m'],
      help: 'Most tokens guessed ahead at a time',
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
   * On a machine with several memory nodes: threads on all of them, on the one where the engine
   * starts, or as numactl says. One choice for all models of a process. Default `'none'`.
   */
  numa: {
    kind: 'choice', fallback: 'none', choices: ['none', 'distribute', 'isolate', 'numactl'],
    flag: {
      names: ['--numa'],
      help: 'On a machine with several memory nodes, threads on all of them (distribute), on the '
        + 'one it starts on (isolate), or as numactl says',
    },
  },
  /**
   * How embeddings are pooled; `'auto'`, the default, takes what the file says, and mean where it
   * says nothing. `'rank'` is for rerankers.
   */
  pooling: {
    kind: 'choice', fallback: 'auto', choices: ['auto', 'none', 'mean', 'cls', 'last', 'rank'],
    flag: {
      names: ['--pooling'],
      help: 'How embeddings are pooled; auto takes what the file says',
    },
  },
  /** Jinja source instead of the file's own chat template. */
  chatTemplate: {
    kind: 'text', fallback: '',
    flag: {
      names: ['--chat-template-file'], value: 'file', key: 'chatTemplateFile', file: true,
      help: 'Jinja template to use instead of the model\'s own',
    },
  },
} as const satisfies Settings;
