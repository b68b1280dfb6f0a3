// The model store for HTTP requests that change it: what recua pull, rm and cp do. Paths are not
// accepted here, and a removal needs the exact name, because nobody can be asked.
import { RecuaError } from '../../errors.js';
import { lastingAliases } from '../../models/aliases.js';
import { percentOf } from '../../models/cache/cached-models.js';
import { carryOut, planRemoval } from '../../models/cache/removal.js';
import { checkSpace, makePlan } from '../../models/download/download-plan.js';
import { download, storedBytes } from '../../models/download/download.js';
import type { DownloadTarget } from '../../models/download/download.js';
import type { MetadataValue } from '../../models/gguf/gguf.js';
import { readModelFile } from '../../models/gguf/model-file.js';
import { chooseModel, groupModels } from '../../models/hub/gguf-files.js';
import { Hub } from '../../models/hub/hub.js';
import type { HubFile } from '../../models/hub/hub.js';
import { setbackWords } from '../../models/hub/retry.js';
import { memoryBytesOf, recommend } from '../../models/hub/recommendation.js';
import { ambiguous, sharedInventory } from '../../models/lookup.js';
import { readRepositoryName } from '../../models/names/repository-name.js';
import { nameModel } from '../../models/naming.js';
import { findPlaces } from '../../models/places.js';
import { storeChanged } from '../../models/served-models.js';
import { asItIsNow, findRunnable, type StoredModel } from '../../models/store.js';
import { machineMemory } from '../../system/machine-memory.js';
import type { FoundRepository, GivenName, ModelShelf, OfferedModel, Pull, ShelfModel, UnfinishedModel } from '../../server/http/shelf.js';

const connections = 4;
/** The server says in its log what is wrong with them. */
const readableAliases = lastingAliases(() => undefined);

/** The files of the models of a server, which need not be in the store. */
export interface ServedFiles {
  /** By id; '' if the model could not be used when the server started. */
  pathOf(id: string): Promise<string>;
  /** The models that the server was started with. */
  readonly chosen: readonly StoredModel[];
}

export function modelShelf({ pathOf, chosen }: ServedFiles): ModelShelf {
  return {
    search, offers, open: openPull, unfinished, aliases,
    ownNames: () => ownNames(chosen),
    async remove(name, begin) {
      await refuseOwnName(chosen, name, 'model');
      await remove(name, begin);
    },
    async copy(source, name) {
      await refuseOwnName(chosen, source, 'source');
      await copy(source, name);
    },
    describe: async (id) => await describe(await pathOf(id)),
  };
}

/** Names that are not the store's, or of another model there. */
async function ownNames(chosen: readonly StoredModel[]): Promise<string[]> {
  if (chosen.length === 0) return [];
  const inventory = await sharedInventory();
  const own: string[] = [];
  for (const model of chosen) {
    const { id, aliases: others, path } = await asItIsNow(model, inventory);
    for (const name of [id, ...others]) {
      const stored = name === 'builtin' ? { path } : await findRunnable(inventory, name).catch(() => undefined);
      if (stored?.path !== path) own.push(name);
    }
  }
  return own;
}

async function refuseOwnName(chosen: readonly StoredModel[], name: string, param: string): Promise<void> {
  if (!(await ownNames(chosen)).some((one) => one.toLowerCase() === name.toLowerCase())) return;
  throw new RecuaError('model_fixed', `${name} is a name that this server was started with (its models file, configuration file or command line), not a name of the store; change it there.`, { param });
}

async function search(words: string, signal: AbortSignal): Promise<FoundRepository[]> {
  return await (await Hub.fromEnvironment()).search(words, signal);
}

async function offers(repository: string, signal: AbortSignal): Promise<OfferedModel[]> {
  const hub = await Hub.fromEnvironment();
  const { repo, revision = 'main' } = readRepositoryName(repository, hub.endpoint);
  const commit = await hub.commitOf(repo, revision, signal);
  const models = groupModels((await hub.list(repo, commit, signal)).files).filter(({ kind, files, parts }) => kind === 'model' && files.length === parts);
  const machine = machineMemory().totalBytes;
  const best = recommend(models, machine);
  const times = new Map<string, number>();
  for (const { quantization } of models) times.set(quantization, (times.get(quantization) ?? 0) + 1);
  const cache = findPlaces().hub;
  const offered: OfferedModel[] = [];
  // One after the other, since thousands at once would keep the server busy.
  for (const model of models) {
    const { quantization, sizeBytes, files: [first] } = model;
    const stored = await Promise.all(model.files.map((file) => storedBytes({ cache, repo, revision, commit, file })));
    const memoryBytes = Math.round(memoryBytesOf(model));
    offered.push({
      name: quantization !== '' && times.get(quantization) === 1 ? `${repo}:${quantization}` : `${repo}/${first.path}`,
      file: first.path,
      quantization,
      sizeBytes,
      storedBytes: stored.reduce((sum, bytes) => sum + bytes, 0),
      memoryBytes,
      fits: memoryBytes <= machine,
      recommended: model === best,
    });
  }
  return offered;
}

/** Without a quantization, takes the one that recua pull recommends for this machine. */
async function openPull(name: string, signal: AbortSignal): Promise<Pull> {
  let note = (_text: string): void => undefined;
  const hub = await Hub.fromEnvironment(process.env, (what, waitMs) => note(setbackWords(what, waitMs)));
  const { repo, revision = 'main', word, file } = readRepositoryName(name, hub.endpoint);
  const commit = await hub.commitOf(repo, revision, signal);
  const { files } = await hub.list(repo, commit, signal);
  const wanted = word ?? file ?? recommend(groupModels(files), machineMemory().totalBytes)?.files[0].path;
  if (wanted === undefined) throw new RecuaError('repository_file_not_found', `No model of ${repo} fits this machine. Name one: ${repo}:<quantization>`);
  const model = chooseModel(repo, files, wanted);
  const cache = findPlaces().hub;
  const targets = model.files.map((one): DownloadTarget => ({ cache, repo, revision, commit, file: one }));
  checkSpace(await makePlan(targets, false), cache);
  const told = targets.map(({ file: one }) => ({ digest: digestOf(one), totalBytes: one.sizeBytes }));
  return {
    files: told,
    async run(tell, noted = () => undefined) {
      note = noted;
      for (const [index, target] of targets.entries()) {
        const onProgress = (doneBytes: number): void => tell(told[index]!, doneBytes);
        onProgress(0);
        await download(hub, target, { force: false, connections, signal, onProgress, onPhase: () => undefined, onNote: noted });
        onProgress(target.file.sizeBytes);
      }
      storeChanged();
    },
  };
}

/** The hub identifies large files by SHA-256, others by their git hash. */
function digestOf({ etag, hash }: HubFile): string {
  return `${hash}:${etag}`;
}

async function remove(name: string, begin?: (models: readonly string[]) => Promise<void>): Promise<void> {
  const inventory = await sharedInventory();
  const plan = await planRemoval(inventory, [name], { takesPaths: false });
  const [guess] = plan.guessed;
  if (guess) throw new RecuaError('model_not_found', `There is no model with exactly the name ${name}. Did you mean ${guess.meant}?`, { param: 'model' });
  const models = plan.removals.flatMap((one) => one.models);
  if (models.length > 1) throw new RecuaError('ambiguous_model', ambiguous(name, models).message, { param: 'model' });
  if (plan.removals.length > 0) await begin?.(models.map((model) => model.name));
  await carryOut(plan, inventory);
  storeChanged();
}

async function copy(source: string, name: string): Promise<void> {
  // nameModel says why the built-in model takes no other name. It would prefer a file of the
  // server's folder to a model that it is not given.
  const model = source === 'builtin' ? undefined : await findRunnable(await sharedInventory(), source);
  if (source !== 'builtin' && !model) throw new RecuaError('model_not_found', `There is no model ${source} in the store.`, { param: 'source' });
  await nameModel(findPlaces(), source, name, false, sharedInventory, model).catch((thrown: unknown) => {
    // Its message tells of a flag of the command line.
    if (!(thrown instanceof RecuaError) || thrown.code !== 'alias_taken') throw thrown;
    throw new RecuaError('alias_taken', `The name ${name} is taken by another model. Take another name, or remove it from that model first.`, { param: 'destination', cause: thrown });
  });
  storeChanged();
}

async function unfinished(): Promise<UnfinishedModel[]> {
  const { models } = await sharedInventory();
  // Those of huggingface_hub cannot be resumed here.
  return models.filter(({ file, partials }) => file !== '' && partials.some(({ foreign }) => !foreign)).map((model) => ({
    name: model.name,
    source: `${model.repo}/${model.file}`,
    hashes: model.partials.map(({ etag }) => etag),
    percent: percentOf(model),
    pulling: model.partials.some(({ puller }) => puller !== undefined),
  }));
}

async function aliases(): Promise<GivenName[]> {
  return [...await readableAliases(findPlaces())].map(([name, { adopted }]) => ({ name, modelStays: adopted ?? false }));
}

async function describe(path: string): Promise<ShelfModel> {
  const { parts: [{ metadata }], architecture, parameters, quantization, sizeBytes } = await readModelFile(path);
  return {
    metadata: Object.fromEntries([...metadata].map(([key, value]) => [key, plainOf(value)])),
    architecture,
    parameters,
    quantization,
    sizeBytes,
  };
}

/** Lists and long texts become null, as in Ollama's non-verbose replies. */
function plainOf(value: MetadataValue): unknown {
  if (typeof value === 'bigint') return Number(value);
  return typeof value === 'object' ? null : value;
}
