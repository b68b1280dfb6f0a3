// A reranker's input: the query and one document, combined as in llama-server. Called by
// embeddings, in the engine.
import type { CancelFlag, NativeModel } from '../../addon/addon.js';

/** Returns a function from document to tokens. The query is tokenized once. */
export function pairReader(model: NativeModel, query: string, cancelled: CancelFlag): (document: string) => Promise<Int32Array> {
  // Rerankers made from chat models have a template for the question.
  const template = model.metadata()['tokenizer.chat_template.rerank'];
  if (template !== undefined) {
    // Every second part is a name.
    const parts = template.split(/\{(query|document)\}/);
    return (document) => {
      const { prompt, literal } = filledIn(parts, { query, document });
      return model.tokenize(prompt, false, true, { literal, cancelled });
    };
  }
  const { bosToken, eosToken, sepToken, addBos, addEos, addSep } = model.info;
  const end = eosToken >= 0 ? eosToken : sepToken;
  const marks = (...tokens: [wanted: boolean, token: number][]) =>
    tokens.filter(([wanted, token]) => wanted && token >= 0).map(([, token]) => token);
  let reading: Promise<Int32Array> | undefined;
  return async (document) => {
    const [asked, tokens] = await Promise.all([
      (reading ??= model.tokenize(query, false, false, { cancelled })),
      model.tokenize(document, false, false, { cancelled }),
    ]);
    return Int32Array.from([
      ...marks([addBos, bosToken]), ...asked, ...marks([addEos, end], [addSep, sepToken]), ...tokens, ...marks([addEos, end]),
    ]);
  };
}

/** The prompt, and its places where no control token begins: those of the texts. */
function filledIn(parts: readonly string[], texts: Record<string, string>): { prompt: string; literal: Int32Array } {
  const all = parts.map((part, i) => (i % 2 === 0 ? part : texts[part]!));
  const sizes = all.map((part) => Buffer.byteLength(part));
  const literal = new Int32Array(sizes.reduce((sum, size, i) => (i % 2 === 0 ? sum : sum + size), 0));
  let count = 0;
  let place = 0;
  for (const [i, size] of sizes.entries()) {
    const end = place + size;
    if (i % 2 === 1) for (; place < end; place++) literal[count++] = place;
    place = end;
  }
  return { prompt: all.join(''), literal };
}
