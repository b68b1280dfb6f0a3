// Grapheme clusters, which users see as one character. A segmenter takes a tenth of the start of
// most commands to make, so it is made on first use.
let segmenter: Intl.Segmenter | undefined;

export function clustersOf(text: string): Intl.Segments {
  segmenter ??= new Intl.Segmenter(undefined, { granularity: 'grapheme' });
  return segmenter.segment(text);
}
