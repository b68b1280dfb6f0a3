// What a reranker reads: the query and one document as a single input, put together as llama-server
// does it. Called by embeddings, in the engine.
import type { CancelFlag, NativeModel } from '../../addon/addon.js';

/** A function from document to tokens; the query is tokenized once. */
export function pairReader(model: NativeModel, query: string, cancelled: CancelFlag): (document: string) => Promise<Int32Array> {
  // Models that were made from chat models say how to ask them.
  const template = model.metadata()['tokenizer.chat_template.rerank'];
  if (template !== undefined) {
    return (document) => {
      const texts: Record<string, string> = { query, document };
      return model.tokenize(template.replace(/\{(query|document)\}/g, (_, name: string) => texts[name]!), false, true, { cancelled });
    };
  }
  const { bosToken, eosToken, sepToken, addBos, addEos, addSep } = model.info;
  const end = eosToken >= 0 ? eosToken : sepToken;
  const marks = (...tokens: [wanted: boolean, token: number][]) => tokens.filter(([wanted, token]) => wanted && token >= 0).map(([, token]) => token);
  let reading: Promise<Int32Array> | undefined;
  return async (document) => {
    const [asked, tokens] = await Promise.all([(reading ??= model.tokenize(query, false, false, { cancelled })), model.tokenize(document, false, false, { cancelled })]);
    return Int32Array.from([
      ...marks([addBos, bosToken]), ...asked, ...marks([addEos, end], [addSep, sepToken]), ...tokens, ...marks([addEos, end]),
    ]);
  };
}
