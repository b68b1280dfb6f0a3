// Descriptions of the API as a whole, and of each group of routes. Markdown. Used by document.
import type { Topic } from './operation.js';

export const aboutAll = [
  'Recua serves one or more GGUF models behind the APIs of OpenAI, Anthropic, Ollama and llama-server.',
  '**Requests.** Send JSON with `Content-Type: application/json` (Ollama\'s routes require the header from browsers only). Bodies may be compressed with gzip, deflate or br. A field '
  + 'that is `null` counts as absent. A field whose name nearly matches a listed one (`max_token`) is a 400; of names of up to five letters, only some are ([errors.md](errors.md)). Other unlisted fields have no effect, and the `warnings` of the answer '
  + 'name them; unlisted fields of list entries, such as messages and tools, are ignored without a warning. `--body-memory` limits the memory of all bodies together; past the limit, requests get a 503 with `Retry-After`. A client that closes its connection, or only its sending side, has left: what it asked for is cancelled. Every `GET` route also answers `HEAD`, and every '
  + 'route answers `OPTIONS`.',
  '**Keys.** A server with API keys (`--api-key`, [security.md](security.md)) requires one on every route except `/health`, `/health/live` and `/health/ready`: `Authorization: Bearer …`, `x-api-key: …` or `api-key: …`. The page at `/` asks its user for the key. A key may have limits; a `POST` past a limit gets a 429 `rate_limit_exceeded` with `Retry-After`. Replies to a `POST` with such a key report what is left as OpenAI does, in `x-ratelimit-limit-requests`, `-remaining-requests`, `-reset-requests` and the same with `-tokens`. A model that the key may not use is a 403. A file, batch or stored response is visible only to the key that created it and to keys of the same name. What was made while the server had no keys is visible to keys with `admin`.',
  '**Models.** `model` takes any name of a model. Without it, or with `default`, the default model answers ([models.md](models.md)); a server that was started without naming a model, and without `models` in the config file, has none, so each request must have `model`. An unknown name is a 404, which suggests similar names if there are any; the server never picks another model '
  + 'and never downloads one. A **single-model server** was started with one model and keeps it loaded ([models.md](models.md#single-model-servers)); while that loads at the start, requests get a 503 `model_loading`. On any other server, a request for a model that is not loaded waits until it is; a stream sends empty chunks meanwhile.',
  '**Turns.** `--parallel` requests of a model run at once and `--queue-size` more wait. Further requests get a 429 with `Retry-After`, and so do requests that waited for `--queue-timeout`; loading the model does not count. A request for several answers (`n`, or several prompts) needs a free place only for its first answer. Once that has begun, the others are never refused: if the queue is full, they wait for one of the same request to end. If the queue is full and another client has at least two more requests in it than the caller, that client\'s last request gets the 429 instead. Clients, told apart by API key or else by '
  + 'address, take turns: the client that received the fewest tokens so far is next. `service_tier` takes precedence over that. `X-Queue-Position` is the position at which a request entered the queue, if it had to wait.',
  '**Examples.** `$ID` and `$NAME` in addresses, and ids and names such as `file-0123`, `chat` or `owner/repo:Q4_K_M` in bodies, are placeholders: put in those of your server.',
  '**Errors** have a code and name the field at fault, in the format of the route\'s API. The status is decided before the first byte of a stream; a later failure is the last event of the stream.',
  '**Pages.** Any web page may send requests to a model, unless `--cors-origins` names those that may. Without API keys, some routes answer only programs, and pages of the server itself and of `localhost`: those of files, batches, saved chats and slot files, and those that load, unload, pull, copy or delete models. Saved chats, and '
  + 'pulling, copying and deleting, are then only for clients on the server\'s own machine. With API keys, the key decides: these routes need `admin`, except those of files and batches.',
  '**Load balancers.** A stream starts once its prompt is accepted, or after `--ping-interval`. With the header `x-stream-opens: first-piece`, the server sends no byte before the first piece of the answer (or 55 seconds), so until then a load balancer can still '
  + 'send the request to another server. A server that is stopping refuses new requests with a 503; while a load balancer polls `/health/ready`, it still takes requests for up to five seconds ([watching.md](watching.md)). `recua cluster config` writes load balancer configurations that send this header.',
  '**Next turns.** In the next turn of a chat, the server evaluates only the new text, as long as it still has the conversation in its cache. The model\'s own answers keep the tokens that it generated.',
].join('\n\n');

const schemas = '**Forms of an answer.** A JSON schema is enforced during generation: types, properties, `enum`, `anyOf`, `allOf`, `$ref`, bounds of numbers (up to those of int64; beyond 2^53, as the nearest double), '
  + 'lengths, patterns and more. A keyword that a grammar cannot enforce (`uniqueItems`, `not`, `if` …, or `multipleOf` next to a bound) is a 400 with its JSON pointer if the schema has `strict: true`. Without `strict` (the '
  + 'default), the answer\'s `warnings` name the keyword instead. (`output_config.format` of Messages is always strict.) The parameters of a tool follow the same rule, with `function.strict`. With the chat templates of Gemma 4, Kimi K3, LFM2, MiniCPM5 and Muse Glimmer, a call may leave out arguments; with those of Gemma 4, Kimi K3 and LFM2, it may also give them any value. With all five, `strict: true` is a 400. Some templates, like those of DeepSeek V4, GLM 4.6, MiniMax M2, Qwen3-Coder and Qwen3.5, write texts in calls without quotes: a text argument may then be any text, and an `enum`, `pattern` or the like for it is a 400 with `strict`. Other forms are `regex`, `choice` and `grammar`, each also available as vLLM\'s `guided_…` and inside '
  + '`structured_outputs`. A request may have only one form, in every API, and `regex`, `choice` and `grammar` only without `tools` (or with `tool_choice: "none"`). If the prompt ends inside thinking, the form applies once the thinking has ended. The field `grammar` is the exception: as in llama-server, it applies from the first token.';

const tools = '**Tools.** `tool_choice` forces a call if it is `required`, names a tool, or is `allowed_tools` with mode `required`: after its thinking, the model can generate nothing but calls of these tools. '
  + 'If the chat template does not support calls, that is a 400. If it does not even show the tools to the model, the `warnings` of every answer say so. The input of a custom tool follows its regular expression or Lark grammar during generation. '
  + 'If the chat template puts no mark before a call, like that of Llama 3, the format and the parameters of functions are enforced only in forced calls; the `warnings` say so for custom tools and for `strict`. A Lark grammar is read as a grammar of characters, without a lexer. It may use rules, terminals, strings (with `i`), regular expressions, ranges, `? * + ~`, `%ignore` and imports from `common`, '
  + 'but no templates and no other imports.';

const history = '[history.md](history.md) describes how the server treats messages as clients send them: consecutive turns, calls that were cut off, answers to continue, and `"truncation": "auto"` for a '
  + 'conversation that does not fit the context.';

export const topics: Readonly<Record<Topic, string>> = {
  'Chat completions': [schemas, tools, history].join('\n\n'),
  Completions: 'Continue a text, without a chat template.',
  Responses: 'The server stores responses for 30 days (`--response-days`; 0 stores none) and keeps at most 1 GiB of them: beyond that, the key that has the most loses its oldest. Responses that are too old or exceed the limit, and expired files, leave the disk within an hour while a '
    + 'server runs. It does not store a response if the request says `store: false`. Stored data is in a folder that only the server\'s user can read: `kept-UID` in the state folder, which `recua config` '
    + 'shows. Servers of the same user share the folder. If their `--response-days` differ, the shortest counts; 0 is ignored.',
  Messages: 'For Anthropic\'s clients, such as Claude Code.',
  Ollama: '`name:latest` means `name`. A chat without messages loads a model; with `keep_alive: 0` it unloads it.',
  'Embeddings and reranking': 'Compute vectors of texts, or rank texts.',
  Tokens: 'See what a model reads.',
  Models: 'The models and their state. Each loaded model runs in its own process. A **single-model server** keeps its model loaded: it was started with exactly one and without `--models`, the config file has no settings for this model, and `--keep-alive`, `--max-models` and `--max-memory` have their defaults. So does a server that a program makes with `createServer(model)`. Any other server unloads a model `--keep-alive` seconds after its last request (or the request\'s `keep_alive`), or when another model needs the '
    + 'memory and no request is using this one; models with `"pinned": true` ([models.md](models.md)) stay. With API keys, only keys with `admin` may set `keep_alive`; from others it has no effect, with a warning.',
  'Files and batches': 'The server keeps files until they are deleted or expire: at most 10,000 files and 16 GiB, and for one API key half of each. A batch is a file of requests for chats, completions, embeddings or responses, one per line: `{"custom_id": "1", "method": "POST", "url": "/v1/chat/completions", "body": {…}}`. `--parallel` of its requests run at '
    + 'once (at most 8), and only after the server has been free of other requests for a second. If other requests arrive and there are too few sequences for all, batch requests are stopped and run again later. A batch may '
    + 'take as long as its `completion_window`. If the server stops or is killed, it continues its batches after the restart, once it has their models; so does another server with the same state folder, once it is asked for them. Any server with that folder can cancel a batch or a background response of another. If the key of a batch, or all keys together, may not '
    + 'store all of its results, a batch fails with `disk_full` and keeps the results so far.',
  'Saved chats': 'The chats that `recua chat` saves, for the page at `/`. A server started with `--ui-sessions` serves them: to keys with `admin`, or without keys to clients on its own machine. While '
    + 'a terminal has a chat open, only that terminal can write it (`session_locked`). A chat that changed since it was read is not overwritten (`session_changed`). A session has `model`, `system`, `sampling` and '
    + '`messages`, in which `{"role": "user", "content", "sent_at"}` and `{"role": "assistant", "content", "ended"}` alternate, as in `recua sessions`.',
  Server: 'The state of the server, and what it serves.',
};
