// `recua pull <repo>`: lists the models of a hub repository, or downloads one into the cache.
import { stat } from 'node:fs/promises';
import { RecuaError } from '../../errors.js';
import { readRate, sizeText } from '../../models/byte-size.js';
import { download, storedBytes } from '../../models/download/download.js';
import type { DownloadTarget } from '../../models/download/download.js';
import { checkSpace, makePlan } from '../../models/download/download-plan.js';
import type { DownloadPlan } from '../../models/download/download-plan.js';
import { chooseModel, groupModels } from '../../models/hub/gguf-files.js';
import type { RemoteModel } from '../../models/hub/gguf-files.js';
import { Hub } from '../../models/hub/hub.js';
import type { HubFile, Listing } from '../../models/hub/hub.js';
import { modelsOf } from '../../models/cache/cached-models.js';
import { repoFolder } from '../../models/cache/hub-cache.js';
import { commitOf, scanRepo } from '../../models/cache/hub-scan.js';
import { findPlaces } from '../../models/places.js';
import { RateLimit } from '../../models/download/rate-limit.js';
import { recommend } from '../../models/hub/recommendation.js';
import { readRepositoryName } from '../../models/names/repository-name.js';
import type { RepositoryName } from '../../models/names/repository-name.js';
import { checkRevision, isRepoFile } from '../../models/names/safe-names.js';
import { shellWord } from '../../models/names/shell-word.js';
import { machineMemory } from '../../system/machine-memory.js';
import { command } from '../command.js';
import { integer, misuse, on, perCall, text } from '../flags/flags.js';
import type { Flag, Values } from '../flags/flags.js';
import { print, say, toJson } from '../terminal/output.js';
import { saySetback } from '../hub-search.js';
import { listingJson, listingText, planJson, planText } from '../pull-listing.js';
import type { HubModel, HubOrigin } from '../pull-listing.js';
import { watchSignals } from '../terminal/signals.js';
import { quoted } from '../terminal/wording.js';

/** Bytes per second; 0 means no limit. */
const limitRate: Flag<number> = {
  names: ['--limit-rate'], value: 'rate', help: 'Download at most this many bytes per second, such as 500K or 2M; 0 means no limit', fallback: 0, read: readRate,
};

const flags = {
  file: perCall(text(['--file', '-f'], 'name', 'Download this file, given by path, name or quantization; any part of a split model stands for all parts')),
  force: perCall(on(['--force', '-F'], 'Download again even if the file is already here')),
  quiet: on(['--quiet', '-q'], 'Show no progress'),
  revision: perCall(text(['--revision'], 'name', 'Use this branch, tag or commit; main by default')),
  dryRun: perCall(on(['--dry-run'], 'Show what would be downloaded and whether the disk has room')),
  limitRate,
  connections: integer(['--connections'], 'n', 'Download over this many connections', { fallback: 4, min: 1, max: 32 }),
  json: perCall(on(['--json'], 'Print JSON')),
} as const;

type PullValues = Values<typeof flags>;

interface Request extends HubOrigin {
  /** What to download; undefined to list. */
  word: string | undefined;
}

export const pull = command({
  name: 'pull',
  aliases: [],
  operands: '<repo>',
  summary: 'Download a model from the hub, or list the models of a repository',
  details: 'Without a file or quantization, it lists the models of the repository. To resume an interrupted download, run the command again. '
    + 'Set HUB_TOKEN to your access token for private and gated repositories.',
  examples: [
    ['recua pull owner/repo', 'List the models of a repository, with sizes and what fits this machine'],
    ['recua pull owner/repo:Q4_K_M', 'Download the model with that quantization, all its parts'],
    ['recua pull owner/repo -f model-Q8_0.gguf', 'Download one file by its name'],
    ['recua pull https://huggingface.co/owner/repo/blob/main/model.gguf', 'Download the file of that web page'],
    ['recua pull owner/repo:Q4_K_M --dry-run', 'Show what would be downloaded'],
    ['recua pull owner/repo:Q4_K_M --limit-rate 2M', 'Leave bandwidth for others'],
  ],
  flags,
  async run({ values, operands, origins }) {
    const [name, ...surplus] = operands;
    if (name === undefined) throw misuse('Expected a repository: recua pull <owner/repo>, such as recua pull bartowski/Llama-3.2-1B-Instruct-GGUF:Q4_K_M.');
    if (surplus.length > 0) throw misuse(`Expected one repository, got also ${surplus.join(' ')}.`);
    if (/\.gguf$/i.test(name) && await stat(name).then((found) => found.isFile(), () => false)) throw misuse(`${name} is a file of this machine. To add it to the store: recua import ${shellWord(name)}`);
    const hub = await Hub.fromEnvironment(process.env, saySetback);
    const request = readRequest(name, values, hub);
    if (request.word === undefined) {
      const useless = (['force', 'dryRun', 'limitRate', 'connections'] as const).find((key) => origins[key].from === 'flag');
      if (useless) throw misuse(`Expected a file to download with ${flags[useless].names[0]}: recua pull ${shellWord(name)} --file <name>, or ${request.repo}:<quantization>.`);
    }
    const stop = watchSignals();
    try {
      return await pullFrom(hub, request, values, stop.signal);
    } catch (thrown) {
      if (stop.signal.aborted && !(thrown instanceof RecuaError && thrown.code === 'cancelled')) throw new RecuaError('cancelled', 'Stopped.', { cause: thrown });
      throw thrown;
    } finally {
      stop.release();
    }
  },
});

function readRequest(name: string, values: PullValues, hub: Hub): Request {
  const { repo, revision, word: afterColon, file } = readName(name, hub);
  const word = afterColon ?? file;
  if (word !== undefined && values.file !== '') throw misuse(`Expected one file, got ${word} in ${name} and --file ${values.file}.`);
  if (revision !== undefined && values.revision !== '' && revision !== values.revision) throw misuse(`Expected one revision, got ${revision} in ${name} and --revision ${values.revision}.`);
  const wanted = revision ?? (values.revision || 'main');
  checkRevision(wanted);
  return { repo, revision: wanted, commit: '', word: word ?? (values.file || undefined) };
}

function readName(name: string, hub: Hub): RepositoryName {
  try {
    return readRepositoryName(name, hub.endpoint);
  } catch (thrown) {
    // An impossible name is a typing mistake.
    throw thrown instanceof RecuaError && thrown.code === 'invalid_name' ? misuse(thrown.message) : thrown;
  }
}

async function pullFrom(hub: Hub, request: Request, values: PullValues, signal: AbortSignal): Promise<number> {
  let listing: Listing;
  try {
    request.commit = await hub.commitOf(request.repo, request.revision, signal);
    listing = await hub.list(request.repo, request.commit, signal);
  } catch (thrown) {
    return await fromCacheAlone(thrown, request, values);
  }
  if (request.word === undefined) return await list(request, listing, values);
  const model = chooseModel(request.repo, listing.files, request.word);
  const targets = model.files.map((file) => targetOf(request, file));
  const plan = await makePlan(targets, values.force);
  if (values.dryRun) {
    await print(values.json ? planJson(request, plan) : await planText(request, plan));
    checkSpace(plan, findPlaces().hub);
    return 0;
  }
  checkSpace(plan, findPlaces().hub);
  return await fetchAll(hub, request, model, { targets, plan, values, signal });
}

function targetOf({ repo, revision, commit }: HubOrigin, file: HubFile): DownloadTarget {
  return { cache: findPlaces().hub, repo, revision, commit, file };
}

async function list(request: Request, listing: Listing, values: PullValues): Promise<number> {
  const listed: HubModel[] = [];
  for (const model of groupModels(listing.files)) {
    let stored = 0;
    for (const file of model.files) stored += await storedBytes(targetOf(request, file));
    listed.push({ model, storedBytes: stored });
  }
  if (values.json) {
    await print(listingJson(request, listed, listing.refused));
    return 0;
  }
  if (listing.refused.length > 0 && !values.quiet) {
    const shown = listing.refused.slice(0, 5).map(quoted).join(', ');
    say(`Note: left out files whose names cannot be stored: ${shown}${listing.refused.length > 5 ? ` and ${listing.refused.length - 5} more` : ''}`);
  }
  if (listed.length === 0) throw new RecuaError('repository_file_not_found', `${request.repo} has no GGUF files. Look for a repository with GGUF in its name.`);
  await print(await listingText(listed));
  const models = listed.map(({ model }) => model).filter((model) => model.kind === 'model');
  const best = recommend(models, machineMemory().totalBytes);
  if (values.quiet || models.length === 0) return 0;
  say(best ? `\nFor this machine: recua pull ${nameOf(request, best, models)}` : '\nNone of them fits this machine\'s memory. Look for a smaller model or a smaller quantization.');
  return 0;
}

function revisionFlag(revision: string): string {
  return revision === 'main' ? '' : ` --revision ${shellWord(revision)}`;
}

/** A model's name on the command line: by its quantization if that is unique. */
function nameOf({ repo, revision }: HubOrigin, model: RemoteModel, models: readonly RemoteModel[]): string {
  const at = revisionFlag(revision);
  const unique = model.quantization !== '' && models.filter((one) => one.quantization === model.quantization).length === 1;
  return `${unique ? `${repo}:${model.quantization}` : `${repo} --file ${shellWord(model.files[0].path)}`}${at}`;
}

interface Download {
  targets: DownloadTarget[];
  plan: DownloadPlan;
  values: PullValues;
  signal: AbortSignal;
}

async function fetchAll(hub: Hub, request: Request, model: RemoteModel, { targets, plan, values, signal }: Download): Promise<number> {
  const { quiet, force, connections } = values;
  if (!quiet) for (const { file, haveBytes } of plan.files) say(`${file.path}  ${sizeText(file.sizeBytes)}${haveBytes === 0 ? '' : haveBytes === file.sizeBytes ? '  (already here)' : `  (${sizeText(haveBytes)} already here)`}`);
  const { DownloadProgress } = await import('../terminal/download-progress.js');
  const progress =
    plan.needBytes === 0 ? undefined : new DownloadProgress({ totalBytes: plan.totalBytes, haveBytes: plan.haveBytes, quiet });
  const limit = values.limitRate > 0 ? new RateLimit(values.limitRate) : undefined;
  const have = plan.files.map((file) => file.haveBytes);
  const paths: string[] = [];
  try {
    for (const [index, target] of targets.entries()) {
      paths.push(await download(hub, target, {
        force, connections, limit, signal,
        onProgress(done) {
          have[index] = done;
          progress?.update(have.reduce((sum, bytes) => sum + bytes, 0));
        },
        onPhase: (phase) => progress?.phase(phase),
        onNote: (note) => progress?.note(note),
      }));
      have[index] = target.file.sizeBytes;
    }
  } catch (thrown) {
    if (!signal.aborted) throw thrown;
    progress?.end();
    throw new RecuaError('cancelled', `Stopped. The part that arrived is kept; to resume: recua pull${force ? ' --force' : ''} ${request.repo} --file ${shellWord(targets[0]!.file.path)}${revisionFlag(request.revision)}`, { cause: thrown });
  } finally {
    progress?.end();
  }
  await report(request, paths, targets.map(({ file }) => file), values);
  if (model.kind === 'model' && !quiet) {
    const name = request.revision === 'main' ? await storedName(targets[0]!) : undefined;
    say(`Try: recua run ${shellWord(name ?? paths[0]!)} -p "Hello"`);
  }
  return 0;
}

/** The shortest name that means this model and no other of the store. */
async function storedName({ cache, repo, file }: DownloadTarget): Promise<string | undefined> {
  const found = await scanRepo(repo, repoFolder(cache, repo)).catch(() => undefined);
  return found && modelsOf([found]).find((model) => model.file === file.path)?.name;
}

async function report(
  { repo, revision, commit }: HubOrigin,
  paths: readonly string[],
  files: readonly HubFile[],
  { json }: PullValues,
): Promise<void> {
  await print(
    json
      ? toJson({
          repository: repo,
          revision,
          commit,
          files: files.map(({ path, sizeBytes }, index) => ({ file: path, path: paths[index], size_bytes: sizeBytes })),
        })
      : `${paths[0]!}\n`,
  );
}

/** If the hub cannot be reached, a complete model in the cache is used as it is. */
async function fromCacheAlone(thrown: unknown, request: Request, values: PullValues): Promise<number> {
  const passing = ['hub_unreachable', 'hub_offline', 'hub_broken', 'hub_rate_limited', 'hub_token_missing', 'hub_token_refused'];
  if (!(thrown instanceof RecuaError) || !passing.includes(thrown.code) || request.word === undefined || values.force || values.dryRun)
    throw thrown;
  const { repo, revision, word } = request;
  const cached = await scanRepo(repo, repoFolder(findPlaces().hub, repo));
  const commit = commitOf(cached, revision);
  const files = cached.files.filter((file) => file.commit === commit && !file.dangling && isRepoFile(file.file));
  let model: RemoteModel;
  try {
    // The hashes are unknown here, and not needed.
    model = chooseModel(repo, files.map(({ file, sizeBytes }) => ({ path: file, sizeBytes, etag: '', hash: 'sha256' })), word);
  } catch {
    throw thrown;
  }
  const paths = model.files.map(({ path }) => files.find(({ file }) => file === path)!.path);
  if (!values.quiet) say(`Note: ${thrown.message}\nThe model is already in the cache, so the cached version is used; there may be a newer one.`);
  await report({ ...request, commit: commit! }, paths, model.files, values);
  return 0;
}
