// Grapheme clusters, which users see as one character. Making a segmenter takes more than 10 ms, so
// it is made on first use.
let segmenter: Intl.Segmenter | undefined;

export function clustersOf(text: string): Intl.Segments {
  segmenter ??= new Intl.Segmenter(undefined, { granularity: 'grapheme' });
  return segmenter.segment(text);
}
