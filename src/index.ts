/**
 * Recua as a library: load a GGUF model, chat, complete, embed, rerank; serve it over HTTP.
 *
 * @module recua
 */
// Anything not exported here may change without notice.
export { loadModel } from './library/load-model.js';
export { openModels } from './library/models.js';
export { createServer } from './library/create-server.js';
export { tool } from './library/tools.js';
export { RecuaError } from './errors.js';
export type { ErrorCode } from './errors.js';
export type { Model, ModelEvents, CompleteResult, Ranked, SavedState } from './library/model.js';
export type { ModelInfo } from './library/model-info.js';
export type { Reply, ReplyDelta } from './library/reply.js';
export type { ChatResult } from './library/conversation.js';
export type { AnswerLogprob, TokenLogprob } from './library/logprobs.js';
export type { ChatOptions, CompleteOptions, GenerateOptions, LoadOptions } from './library/options.js';
export type { Message, ToolCall } from './library/messages.js';
export type { AnyTool, Tool, ToolChoice, ToolContext, Tools } from './library/tools.js';
export type { FromJsonSchema, FromSchema, JsonSchema, Schema, StandardResult, StandardSchema } from './library/schema.js';
export type { LeaseOptions, ModelOptions, Models, ModelsEvents, ModelStatus, OpenOptions } from './library/models.js';
export type { ModelsServerOptions, ServerApp, ServerOptions } from './library/create-server.js';
export type { FinishReason, Timings, Usage } from './engine/protocol.js';
export type { Device } from './addon/addon.js';
