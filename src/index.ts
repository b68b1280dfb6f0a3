// The library's face: start an engine, put the HTTP API over it, or mount that in an app of your own.
// What is not here may change without notice.
export { defaults, makeConfig } from './config.js';
export type { Config } from './config.js';
export { RecuaError, errorTable } from './errors.js';
export type { ErrorCode } from './errors.js';
export type { Answer, Embedded, Engine, EngineState, Finish } from './engine/api.js';
export { startEngine } from './engine/client.js';
export type { ClientSettings } from './engine/client.js';
export type {
  ChatMessage, ChatRequest, CompletionRequest, Constraint, Delta, EmbedRequest, EngineOptions, FinishReason, ModelDescription, Sampling, Timings, Tool, Usage,
} from './engine/protocol.js';
export { readGguf } from './models/gguf.js';
export type { Gguf, MetadataValue } from './models/gguf.js';
export { readModelFile } from './models/model-file.js';
export type { ModelFile } from './models/model-file.js';
export { findModel } from './models/store.js';
export type { StoredModel } from './models/store.js';
export { createApp } from './server/app.js';
export type { AppOptions } from './server/app.js';
export { listen } from './server/listen.js';
export type { Listening } from './server/listen.js';
