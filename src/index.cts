// What `require('recua')` returns: the same library, for CommonJS programs. The library is an ES
// module, which Node before 20.19 cannot load synchronously, so this module imports it in the
// background, and functions wait for it. Both ways of loading share one copy.
type Library = typeof import('./index.js', { with: { 'resolution-mode': 'import' } });

let library: Library | undefined;
const loading: Promise<Library> = import('./index.js').then((loaded: Library) => (library = loaded));
// The first call reports the error.
loading.catch(() => {});

/**
 * For exports that cannot wait. Each needs a model or an error, which only a loaded library can
 * have made.
 */
function loaded(): Library {
  if (library === undefined) throw new Error('recua is still being loaded: wait for loadModel() first.');
  return library;
}

/** `instanceof` asks the real class, and `new` makes an object of it. */
const lazyError = new Proxy(class RecuaError extends Error {}, {
  get: (target, key) => (key === Symbol.hasInstance
    ? (value: unknown) => library !== undefined && value instanceof library.RecuaError
    : Reflect.get(library?.RecuaError ?? target, key) as unknown),
  construct: (_, args) => Reflect.construct(loaded().RecuaError, args) as object,
}) as unknown as Library['RecuaError'];

// `export =` exports one value; only a namespace can also carry types.
// eslint-disable-next-line @typescript-eslint/no-namespace
namespace recua {
  export const loadModel: Library['loadModel'] = async (...args) => await (await loading).loadModel(...args);
  export const openModels: Library['openModels'] = async (...args) => await (await loading).openModels(...args);
  export const createServer = ((...args: Parameters<Library['createServer']>) => loaded().createServer(...args)) as Library['createServer'];
  export const tool: Library['tool'] = (definition) => definition;
  export const RecuaError = lazyError;
  export type RecuaError = import('./index.js', { with: { 'resolution-mode': 'import' } }).RecuaError;
  export type ErrorCode = import('./index.js', { with: { 'resolution-mode': 'import' } }).ErrorCode;
  export type Model = import('./index.js', { with: { 'resolution-mode': 'import' } }).Model;
  export type ModelEvents = import('./index.js', { with: { 'resolution-mode': 'import' } }).ModelEvents;
  export type ModelInfo = import('./index.js', { with: { 'resolution-mode': 'import' } }).ModelInfo;
  export type AnswerLogprob = import('./index.js', { with: { 'resolution-mode': 'import' } }).AnswerLogprob;
  export type TokenLogprob = import('./index.js', { with: { 'resolution-mode': 'import' } }).TokenLogprob;
  export type Ranked = import('./index.js', { with: { 'resolution-mode': 'import' } }).Ranked;
  export type SavedState = import('./index.js', { with: { 'resolution-mode': 'import' } }).SavedState;
  export type ReplyDelta = import('./index.js', { with: { 'resolution-mode': 'import' } }).ReplyDelta;
  export type GenerateOptions = import('./index.js', { with: { 'resolution-mode': 'import' } }).GenerateOptions;
  export type LoadOptions = import('./index.js', { with: { 'resolution-mode': 'import' } }).LoadOptions;
  export type Message = import('./index.js', { with: { 'resolution-mode': 'import' } }).Message;
  export type ToolCall = import('./index.js', { with: { 'resolution-mode': 'import' } }).ToolCall;
  export type AnyTool = import('./index.js', { with: { 'resolution-mode': 'import' } }).AnyTool;
  export type ToolChoice = import('./index.js', { with: { 'resolution-mode': 'import' } }).ToolChoice;
  export type ToolContext = import('./index.js', { with: { 'resolution-mode': 'import' } }).ToolContext;
  export type Tools = import('./index.js', { with: { 'resolution-mode': 'import' } }).Tools;
  export type JsonSchema = import('./index.js', { with: { 'resolution-mode': 'import' } }).JsonSchema;
  export type Schema = import('./index.js', { with: { 'resolution-mode': 'import' } }).Schema;
  export type ServerApp = import('./index.js', { with: { 'resolution-mode': 'import' } }).ServerApp;
  export type ServerOptions = import('./index.js', { with: { 'resolution-mode': 'import' } }).ServerOptions;
  export type ModelsServerOptions = import('./index.js', { with: { 'resolution-mode': 'import' } }).ModelsServerOptions;
  export type LeaseOptions = import('./index.js', { with: { 'resolution-mode': 'import' } }).LeaseOptions;
  export type ModelOptions = import('./index.js', { with: { 'resolution-mode': 'import' } }).ModelOptions;
  export type Models = import('./index.js', { with: { 'resolution-mode': 'import' } }).Models;
  export type ModelsEvents = import('./index.js', { with: { 'resolution-mode': 'import' } }).ModelsEvents;
  export type ModelStatus = import('./index.js', { with: { 'resolution-mode': 'import' } }).ModelStatus;
  export type OpenOptions = import('./index.js', { with: { 'resolution-mode': 'import' } }).OpenOptions;
  export type FinishReason = import('./index.js', { with: { 'resolution-mode': 'import' } }).FinishReason;
  export type Timings = import('./index.js', { with: { 'resolution-mode': 'import' } }).Timings;
  export type Usage = import('./index.js', { with: { 'resolution-mode': 'import' } }).Usage;
  export type Device = import('./index.js', { with: { 'resolution-mode': 'import' } }).Device;
  export type CompleteResult<Output = undefined> = import('./index.js', { with: { 'resolution-mode': 'import' } }).CompleteResult<Output>;
  export type ChatResult<Output = undefined> = import('./index.js', { with: { 'resolution-mode': 'import' } }).ChatResult<Output>;
  export type Reply<Result> = import('./index.js', { with: { 'resolution-mode': 'import' } }).Reply<Result>;
  export type ChatOptions<S extends Schema | undefined = undefined> = import('./index.js', { with: { 'resolution-mode': 'import' } }).ChatOptions<S>;
  export type CompleteOptions<S extends Schema | undefined = undefined> = import('./index.js', { with: { 'resolution-mode': 'import' } }).CompleteOptions<S>;
  export type Tool<S extends Schema = Schema> = import('./index.js', { with: { 'resolution-mode': 'import' } }).Tool<S>;
  export type FromJsonSchema<S> = import('./index.js', { with: { 'resolution-mode': 'import' } }).FromJsonSchema<S>;
  export type FromSchema<S> = import('./index.js', { with: { 'resolution-mode': 'import' } }).FromSchema<S>;
  export type StandardResult<Output> = import('./index.js', { with: { 'resolution-mode': 'import' } }).StandardResult<Output>;
  export type StandardSchema<Output = unknown> = import('./index.js', { with: { 'resolution-mode': 'import' } }).StandardSchema<Output>;
}
export = recua;
