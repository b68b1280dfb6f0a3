// What a model can do, and the errors for what it cannot: the only place for these checks, whatever
// the caller (HTTP, library, command line). Called where the engine runs, before anything is
// prepared. Pure.
import { RecuaError } from '../errors.js';
import type { EmbedRequest, ModelDescription, RerankRequest } from './protocol.js';

/** Why a model cannot chat or complete; undefined if it can. */
export function notGenerating({ canGenerate }: Pick<ModelDescription, 'canGenerate'>): RecuaError | undefined {
  return canGenerate ? undefined : refusal('chat_unsupported', 'This model cannot generate text; it gives embeddings only.');
}

/** Why a model cannot embed or rerank; undefined if it can. */
export function notPooled({ canEmbed, canRerank, pooling }: Pick<ModelDescription, 'canEmbed' | 'canRerank' | 'pooling'>, request: EmbedRequest | RerankRequest): RecuaError | undefined {
  if ('documents' in request) {
    if (canRerank) return undefined;
    return refusal('rerank_unsupported', `This model is not a reranker: its pooling is ${pooling}. Load a reranker, with --pooling rank (in a program: pooling: \'rank\') if its file does not say that it is one.`);
  }
  if (canEmbed) return undefined;
  return refusal('embeddings_unsupported', canRerank
    ? 'This model is a reranker: it scores texts and gives no embedding vectors. Load an embedding model.'
    : 'This model cannot give pooled embedding vectors; load an embedding model.');
}

function refusal(code: 'chat_unsupported' | 'embeddings_unsupported' | 'rerank_unsupported', message: string): RecuaError {
  return new RecuaError(code, message, { param: 'model' });
}
