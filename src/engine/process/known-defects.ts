// Defects of the pinned llama.cpp with architectures that it loads: found by
// test/service/architectures.test.ts, which also reports entries that are no longer needed.

export interface KnownDefect {
  /** Several sequences in a batch give wrong results, and sometimes crash the process. */
  oneAtATime?: true;
  /** Reading pooled vectors crashes the process. */
  noVectors?: true;
  /**
   * It has no memory, so it only embeds. A file may say that it generates; a prompt of several
   * batches would then end the process.
   */
  embedsOnly?: true;
}

/** llama_model::create_memory() makes none for these. */
const withoutMemory = [
  'bert', 'jina-bert-v2', 'jina-bert-v3', 'nomic-bert', 'nomic-bert-moe', 'neo-bert', 'eurobert', 'modern-bert', 'wavtokenizer-dec', 'gemma-embedding', 'dream', 'llada',
  'llada-moe', 'rnd1',
];

export const knownDefects: Readonly<Record<string, KnownDefect>> = {
  plamo2: { oneAtATime: true },
  'kimi-linear': { oneAtATime: true },
  deepseek4: { noVectors: true },
  qwen4exp: { noVectors: true },
  ...Object.fromEntries(withoutMemory.map((architecture): [string, KnownDefect] => [architecture, { embedsOnly: true }])),
};

/** Notes for the user. */
export function defectNotes(architecture: string, parallel: number): string[] {
  const { oneAtATime, noVectors } = knownDefects[architecture] ?? {};
  return [
    ...(oneAtATime && parallel > 1 ? [`Requests run one at a time: llama.cpp computes several sequences of ${architecture} wrongly.`] : []),
    ...(noVectors ? [`No embeddings: llama.cpp cannot read the embeddings of ${architecture}.`] : []),
  ];
}
