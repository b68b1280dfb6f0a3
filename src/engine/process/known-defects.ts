// Defects of the pinned llama.cpp with architectures that it loads: found by
// test/service/architectures.test.ts, which also reports entries that are no longer needed.

export interface KnownDefect {
  /** Several sequences in a batch give wrong results, and sometimes crash the process. */
  oneAtATime?: true;
  /** Reading pooled vectors crashes the process. */
  noVectors?: true;
}

export const knownDefects: Readonly<Record<string, KnownDefect>> = {
  plamo2: { oneAtATime: true },
  'kimi-linear': { oneAtATime: true },
  deepseek4: { noVectors: true },
  qwen4exp: { noVectors: true },
};

/** Notes for the user. */
export function defectNotes(architecture: string, parallel: number): string[] {
  const { oneAtATime, noVectors } = knownDefects[architecture] ?? {};
  return [
    ...(oneAtATime && parallel > 1 ? [`Requests run one at a time: llama.cpp computes several sequences of ${architecture} wrongly.`] : []),
    ...(noVectors ? [`No embeddings: llama.cpp cannot read the embeddings of ${architecture}.`] : []),
  ];
}
