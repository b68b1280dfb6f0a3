// What `recua doctor` checks, and what it finds wrong. Each check stands alone: a check that fails
// is a finding and does not stop the others.
import { constants, existsSync } from 'node:fs';
import { access, statfs } from 'node:fs/promises';
import { dirname } from 'node:path';
import { RecuaError } from '../../errors.js';
import { installCommand, isClone, ownInstallation } from '../../system/installation.js';
import type { Installation } from '../../system/installation.js';
import { createFolder } from '../../system/create-folder.js';
import { sizeText } from '../../models/byte-size.js';
import { findPlaces } from '../../models/places.js';
import { whatHolds } from '../../engine/confinement/launch.js';
import { takeSurvey } from '../../engine/gateway/survey.js';
import type { Survey } from '../../engine/gateway/survey.js';
import type { AnyCommand } from '../command.js';
import { servePlaces } from '../serve/state-file.js';
import { findStatus, otherVersion } from '../serve/status.js';
import type { Status } from '../serve/status.js';
import { FlagSettings, configPath } from '../flags/settings.js';
import { findGraphics, fittingBackend } from './graphics.js';
import type { Graphics } from './graphics.js';
import { proveProcessor, type ProcessorFacts } from './processor.js';

export interface Finding {
  /** 'fatal': Recua cannot work; 'warning': it works with limitations. */
  level: 'fatal' | 'warning';
  /** What is wrong and what to do, in sentences. */
  text: string;
}

export interface GpuAdvice {
  package: string;
  command: string;
}

export interface StoreFacts {
  path: string;
  exists: boolean;
  writable: boolean;
  freeBytes: number | undefined;
}

export interface Examination {
  installation: Installation;
  node: string;
  survey: Survey | undefined;
  /** Undefined without an addon to check. */
  processor: ProcessorFacts | undefined;
  graphics: Graphics;
  /** The package that would use this machine's GPU, if no installed one does. */
  advice: GpuAdvice | undefined;
  store: StoreFacts;
  config: { path: string; exists: boolean; error: string };
  server: Status | undefined;
  /** The sandbox of engine processes without a GPU, or 'none'; empty if the addon does not load. */
  sandbox: string;
  findings: Finding[];
}

const leastNode = 20;
/** With less, downloads of most models fail. */
const leastFreeBytes = 1024 ** 3;

export async function examine(commands: readonly AnyCommand[]): Promise<Examination> {
  const installation = ownInstallation();
  const findings: Finding[] = [];
  const fatal = (text: string) => findings.push({ level: 'fatal', text });
  const warn = (text: string) => findings.push({ level: 'warning', text });
  if (Number(process.versions.node.split('.')[0]) < leastNode) fatal(`Recua needs Node ${leastNode} or newer, but this is ${process.version}. Install a newer Node.`);

  const graphics = findGraphics();
  // Before the survey, which then leaves out the libraries found to be wrong.
  const processor = await proveProcessor();
  if (processor?.broken) fatal(processor.broken);
  for (const text of processor?.texts ?? []) warn(`${text}.`);
  const survey = await takeSurvey().catch((thrown: unknown) => {
    fatal(RecuaError.from(thrown).message);
    return undefined;
  });
  if (survey?.failure) fatal(survey.failure.message);
  for (const { name, reason } of survey?.attempts ?? []) warn(`The native addon at ${name} is skipped: ${reason}.`);
  for (const one of survey?.packages.filter(({ backend, refusal }) => backend === 'cpu' && refusal !== '') ?? []) {
    if (survey?.addon && !survey.attempts.some(({ name }) => name.startsWith(one.name))) {
      warn(`${one.name} is not used: ${one.refusal}. ${installCommand(installation, `${one.name}@${installation.version}`)} brings the one that fits.`);
    }
  }
  for (const { backend, package: name, reason, loaded } of survey?.optional ?? []) {
    if (!loaded) warn(`The ${backend} backend${name === '' ? '' : ` (${name})`} is not used: ${reason}.`);
  }
  const advice = adviseGpu(survey, graphics, installation);

  const store = await examineStore();
  if (!store.writable) warn(`The model store ${store.path} cannot be written, so models can neither be added nor removed. Move it with SERVICE_HOME, or make it writable.`);
  else if (store.freeBytes !== undefined && store.freeBytes < leastFreeBytes) warn(`The disk of the model store has ${sizeText(store.freeBytes)} free, too little for most models. Make room with recua list and recua rm.`);

  const { state, sessions } = findPlaces();
  for (const [path, what] of [[state, 'uploaded files, batches, kept responses and the background server'], [sessions, 'saved chats']] as const) {
    if (!await isWritable(path)) warn(`The folder ${path}, for ${what}, cannot be written. Make it writable; it may belong to another user.`);
  }

  const config = { path: configPath(), exists: existsSync(configPath()), error: '' };
  await FlagSettings.read(() => Promise.resolve(commands)).then((settings) => {
    settings.strayVariables(commands).forEach(warn);
    for (const problem of settings.problems(commands)) {
      if (problem.includes(config.path)) config.error = problem;
      fatal(problem);
    }
  }, (thrown: unknown) => {
    config.error = RecuaError.from(thrown).message;
    fatal(config.error);
  });

  const server = await findStatus(servePlaces()).catch((thrown: unknown) => {
    warn(`The state of the background server (recua serve) is unknown: ${RecuaError.from(thrown).message}`);
    return undefined;
  });
  for (const wrong of server ? [server.problem, otherVersion(server)] : []) if (wrong !== '') warn(`The background server (recua serve): ${wrong}`);
  return { installation, node: process.version, survey, processor, graphics, advice, store, config, server, sandbox: survey?.addon ? whatHolds() : '', findings };
}

/**
 * Nothing if a GPU already computes, or if a package for it is installed: then the reason why it is
 * not used matters.
 */
export function adviseGpu(survey: Survey | undefined, graphics: Graphics, installation: Installation): GpuAdvice | undefined {
  if (!survey || survey.devices.some(({ kind }) => kind === 'gpu' || kind === 'igpu')) return undefined;
  const backend = fittingBackend(graphics, survey.machine);
  if (backend === undefined || survey.optional.some((one) => one.backend === backend)) return undefined;
  const name = `@recua/${survey.machine.platform}-${survey.machine.arch}-${backend}`;
  const command = isClone(installation) ? `RECUA_CMAKE_ARGS="-DGGML_${backend.toUpperCase()}=ON" npm run setup` : installCommand(installation, `${name}@${installation.version}`);
  return { package: name, command };
}

/** Folders are created on first use, so the nearest existing one is checked. */
async function examineStore(): Promise<StoreFacts> {
  const path = findPlaces().hub;
  const exists = await access(path).then(() => true, () => false);
  const freeBytes = await statfs(await nearestExisting(path)).then(({ bavail, bsize }) => bavail * bsize, () => undefined);
  return { path, exists, writable: await isWritable(path), freeBytes };
}

async function nearestExisting(path: string): Promise<string> {
  let at = path;
  while (!await access(at).then(() => true, () => false) && dirname(at) !== at) at = dirname(at);
  return at;
}

async function isWritable(path: string): Promise<boolean> {
  const at = await nearestExisting(path);
  return await access(at, constants.W_OK | constants.X_OK).then(() => isFolder(at), () => false);
}

/** Creating an existing folder changes nothing; it fails if the path is not a folder. */
async function isFolder(path: string): Promise<boolean> {
  return await createFolder(path).then(() => true, () => false);
}
