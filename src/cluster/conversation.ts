// How HTTP requests identify conversations: which headers name one, and which routes answer from a
// prompt alone, so that any replica can serve them.

/**
 * Headers that name a conversation; the first one present counts: Recua's own, then those of
 * agents.
 */
export const sessionHeaders = ['x-session-id', 'session-id', 'session_id', 'x-claude-code-session-id', 'x-session-affinity'] as const;

/** Fields of OpenAI's and Anthropic's bodies in which the client names the conversation. */
export const sessionFields = ['prompt_cache_key', 'metadata.user_id', 'user'] as const;

/**
 * Routes that a replica answers from the request alone, so a balancer may resend them elsewhere.
 * All other routes use what one replica keeps, such as files and batches.
 */
export const askingPaths = [
  '/v1/chat/completions', '/chat/completions', '/v1/chat/completions/input_tokens', '/chat/completions/input_tokens', '/v1/completions', '/completions', '/completion', '/infill',
  '/v1/responses', '/responses', '/v1/messages', '/v1/messages/count_tokens', '/v1/embeddings', '/embeddings', '/v1/rerank', '/rerank', '/v1/reranking', '/reranking',
  '/tokenize', '/detokenize', '/apply-template', '/api/chat', '/api/generate', '/api/embed', '/api/embeddings',
] as const;

/** The routes among these whose answer is kept for later requests, unless `store` is false. */
export const keptPaths = ['/v1/responses', '/responses'] as const;
