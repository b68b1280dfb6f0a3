// What the pinned llama.cpp cannot do with some architectures, though it loads them: found by
// test/service/architectures.test.ts, which also tells when an entry is needless.

export interface KnownDefect {
  /** Several sequences in a batch give wrong numbers, and end the process now and then. */
  oneAtATime?: true;
  /** Reading pooled vectors ends the process. */
  noVectors?: true;
}

export const knownDefects: Readonly<Record<string, KnownDefect>> = {
  plamo2: { oneAtATime: true },
  'kimi-linear': { oneAtATime: true },
  deepseek4: { noVectors: true },
  qwen4exp: { noVectors: true },
};

/** What the user should know of them. */
export function defectNotes(architecture: string, parallel: number): string[] {
  const { oneAtATime, noVectors } = knownDefects[architecture] ?? {};
  return [
    ...(oneAtATime && parallel > 1 ? [`Requests are answered one after the other: llama.cpp computes several sequences of ${architecture} wrongly.`] : []),
    ...(noVectors ? [`No embeddings: llama.cpp cannot read those of ${architecture}.`] : []),
  ];
}
