// The environment variables that are not flags, for `recua help environment`, docs/cli.md, the man
// page and `recua config`.

/** Those that begin with RECUA_ are not settings, so no flag may have their name. */
export const otherVariables: readonly (readonly [name: string, meaning: string])[] = [
  ['RECUA_CONFIG', 'Path of the config file, instead of recua/config.json in XDG_CONFIG_HOME or ~/.config'],
  ['SERVICE_HOME', 'One folder for models, chats and state, instead of ~/.cache/huggingface for models and ~/.local/share/recua for the rest'],
  ['HUB_HOME', 'Folder of the models alone: the hub\'s cache (also HF_HUB_CACHE)'],
  ['HUB_TOKEN', 'Access token for private and gated models (also HF_TOKEN, or the file that HF_TOKEN_PATH names)'],
  ['HF_HOME', 'Folder of the hub\'s cache and token; for models, HUB_HOME and SERVICE_HOME count before it'],
  ['XDG_CACHE_HOME', 'Folder of caches, instead of ~/.cache: huggingface in it has the hub\'s cache and token, unless a variable above names another folder'],
  ['XDG_DATA_HOME', 'Folder of data, instead of ~/.local/share: recua in it has chats and state, unless SERVICE_HOME is set. A relative path is ignored'],
  ['XDG_CONFIG_HOME', 'Folder of configuration, instead of ~/.config: recua in it has the config file, unless RECUA_CONFIG is set. A relative path is ignored'],
  ['HF_ENDPOINT', 'Address of the hub, instead of https://huggingface.co'],
  ['HF_HUB_OFFLINE', '1 turns off all requests to the hub'],
  ['HTTPS_PROXY', 'Proxy for downloads (also HTTP_PROXY; NO_PROXY lists hosts that need none)'],
  ['OTEL_EXPORTER_OTLP_ENDPOINT', 'Collector for traces, used without --traces; OpenTelemetry\'s other variables work too'],
  ['NODE_EXTRA_CA_CERTS', 'File with additional certificates to trust, as for any Node program'],
  ['NO_COLOR', 'Any value turns off colors and styles; Markdown keeps its markup'],
  ['VISUAL', 'Editor that Ctrl-X Ctrl-E opens in a chat (also EDITOR)'],
  ['RECUA_ADDON', 'Path of the native addon to load, a recua.node; no other is tried'],
  ['RECUA_CPU_CHECK', 'off skips the check that a CPU library computes correctly'],
  ['RECUA_LLAMA_CPP', 'At build time: path of your own llama.cpp'],
  ['RECUA_CMAKE_ARGS', 'At build time: options for cmake'],
  ['RECUA_TEST_URL', 'For the tests: server to run them against'],
  ['RECUA_FUZZ_SEED', 'For the tests: seed of the fuzzed requests'],
  ['RECUA_EXIT_ROUNDS', 'For the tests: how often each way to exit is tried'],
];

/** Exit codes of every command. */
export const exitCodes: readonly (readonly [code: string, meaning: string])[] = [
  ['0', 'done'],
  ['1', 'failed; the reason is on stderr'],
  ['2', 'usage error: an unknown command, flag or setting, or a value out of range'],
  ['130', 'stopped by Ctrl-C'],
  ['143', 'stopped by SIGTERM; 129 if its terminal was closed'],
];
