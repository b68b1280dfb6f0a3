// What tells conversations apart, in the words of HTTP: which headers name one, and which routes
// answer from a prompt, so that any replica could.

/** Headers that name a conversation, the first that is there counts: ours, then those of agents. */
export const sessionHeaders = ['x-session-id', 'session-id', 'session_id', 'x-claude-code-session-id', 'x-session-affinity'] as const;

/** Of OpenAI's and Anthropic's bodies, by what the client itself calls the conversation. */
export const sessionFields = ['prompt_cache_key', 'metadata.user_id', 'user'] as const;

/**
 * Routes that a replica answers from the request alone: sent again elsewhere they do no harm. All
 * others know of what a replica keeps, such as files and batches.
 */
export const askingPaths = [
  '/v1/chat/completions', '/chat/completions', '/v1/chat/completions/input_tokens', '/chat/completions/input_tokens', '/v1/completions', '/completions', '/completion', '/infill',
  '/v1/responses', '/responses', '/v1/messages', '/v1/messages/count_tokens', '/v1/embeddings', '/embeddings', '/v1/rerank', '/rerank', '/v1/reranking', '/reranking',
  '/tokenize', '/detokenize', '/apply-template', '/api/chat', '/api/generate', '/api/embed', '/api/embeddings',
] as const;

/** Of these, those whose answer is kept for later requests, unless `store` is false. */
export const keptPaths = ['/v1/responses', '/responses'] as const;
