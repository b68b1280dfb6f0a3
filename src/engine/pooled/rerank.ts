// A reranker's input: the query and one document, combined as in llama-server. Called by
// embeddings, in the engine.
import type { CancelFlag, NativeModel } from '../../addon/addon.js';

/** Returns a function from document to tokens. The query is tokenized once. */
export function pairReader(model: NativeModel, query: string, cancelled: CancelFlag): (document: string) => Promise<Int32Array> {
  // Rerankers made from chat models have a template for the question.
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
