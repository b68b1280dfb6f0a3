// The files that an engine process may open (docs/security.md). It may read the system files that
// Node, the addon and drivers need, and its model's files, but not home folders, temporary files or
// other data. It may write where conversations are kept, and to the few system paths in `rulesOf`.
import { existsSync, readdirSync, readFileSync, realpathSync } from 'node:fs';
import { basename, delimiter, dirname, isAbsolute, join, relative, sep } from 'node:path';
import { linkedFolders, packageFolders } from '../../addon/places.js';
import { homeFolder } from '../../system/home-folder.js';
import { ownInstallation } from '../../system/installation.js';
import { turnFile } from '../../system/turn-file.js';
import { nodePath } from '../../system/programs.js';

type Environment = Readonly<Record<string, string | undefined>>;

/** What a process needs in addition to what all processes need. */
export interface Needs {
  /** Files that it reads, and folders with everything in them. */
  reads: readonly string[];
  /** Folders that it writes to. */
  writes: readonly string[];
  /** Layers may go to a GPU. */
  gpu: boolean;
}

/** Paths; a folder stands for everything in it. */
export interface Rules {
  read: string[];
  write: string[];
  /** They may be written, but not shortened: other processes have their files in memory. */
  share: string[];
  device: string[];
  run: string[];
}

/**
 * Top-level folders with programs, libraries and what the kernel tells. Others may hold users'
 * data: not every home is in /home.
 */
const systemFolders = /^(bin|sbin|lib\w*|usr|opt|nix|gnu|snap|proc|sys)$/;
/** Readable entries of /etc: none of them is secret. */
const systemSettings = /^(ld\.so\.|nsswitch\.conf$|os-release$|localtime$|timezone$|passwd$|group$|hosts$|vulkan$|OpenCL$|glvnd$|drirc$|alternatives$|nvidia$|rocm|pkcs11$|crypto-policies$)/;
/** Settings of OpenSSL, which Node may read. Private keys may lie beside them. */
const opensslSettings = /^(openssl|engines|fips)/;
/** Folders in /run where some systems have their drivers. */
const driverFolders = ['/run/opengl-driver', '/run/opengl-driver-32', '/run/host', '/run/nvidia', '/run/nvidia-persistenced', '/run/current-system'];
/** Environment variables that name files or folders which Node or a driver reads. */
const namedByVariables = ['LD_LIBRARY_PATH', 'LD_PRELOAD', 'CUDA_PATH', 'CUDA_HOME', 'ROCM_PATH', 'HIP_PATH', 'VK_ICD_FILENAMES', 'VK_DRIVER_FILES', 'VK_ADD_DRIVER_FILES', 'OCL_ICD_VENDORS', 'GGML_BACKEND_PATH', 'OPENSSL_CONF', 'NODE_EXTRA_CA_CERTS', 'SSL_CERT_FILE', 'NODE_ICU_DATA', 'LOCPATH'];
const gpuDevices = /^(nvidia.*|dri|kfd|dxg|shm)$/;

export function rulesOf({ reads, writes, gpu }: Needs, environment: Environment = process.env): Rules {
  const installation = ownInstallation();
  const addon = environment['RECUA_ADDON'];
  const nodeLibraries = join(dirname(dirname(nodePath())), 'lib');
  const cores = turnFile(environment);
  return {
    read: [
      ...inside('/', (name) => systemFolders.test(name)).flatMap((folder) => withoutHome(folder, environment)), ...inside('/etc', (name) => systemSettings.test(name)), ...driverFolders,
      ...['/etc/ssl', '/etc/pki/tls'].flatMap((folder) => inside(folder, (name) => opensslSettings.test(name))),
      nodePath(), nodeLibraries, installation.root, ...packageFolders(installation), ...linkedFolders(installation),
      ...(addon ? [dirname(addon)] : []), ...namedByVariables.flatMap((name) => (environment[name] ?? '').split(delimiter)),
      ...reads.flatMap(withTargets),
    ].filter((path) => isAbsolute(path) && existsSync(path)),
    write: ['/dev/null', '/dev/zero', ...(gpu ? driverCaches(environment) : []), ...writes].filter((path) => existsSync(path)),
    share: cores === '' ? [] : [dirname(cores)],
    device: gpu ? inside('/dev', (name) => gpuDevices.test(name)) : ['/dev/urandom', '/dev/random'],
    run: [nodePath(), ...loaders()],
  };
}

/** Whether a process with these rules has what it needs. */
export function suffices(rules: Rules, { reads, writes, gpu }: Needs): boolean {
  const holds = (folders: readonly string[], path: string): boolean => folders.some((folder) => isWithin(path, folder));
  return !gpu && reads.flatMap(withTargets).every((path) => holds(rules.read, path)) && writes.every((path) => holds(rules.write, path));
}

export function launchArguments({ read, write, share, device, run }: Rules): string[] {
  const each = (option: string, paths: readonly string[]): string[] => [...new Set(paths)].flatMap((path) => [option, path]);
  return [...each('--read', read), ...each('--write', write), ...each('--share', share), ...each('--device', device), ...each('--run', run)];
}

function isWithin(path: string, folder: string): boolean {
  const way = relative(folder, path);
  return way !== '..' && !way.startsWith(`..${sep}`) && !isAbsolute(way);
}

function inside(folder: string, wanted: (name: string) => boolean): string[] {
  return entriesOf(folder).filter(wanted).map((name) => join(folder, name));
}

/**
 * The folder, or all in it but the part with the home folder: some services have theirs in /opt.
 */
function withoutHome(folder: string, environment: Environment): string[] {
  let home: string;
  try {
    home = targetOf(homeFolder(environment));
  } catch {
    return [folder];
  }
  return isWithin(home, folder) ? inside(folder, (name) => !isWithin(home, join(folder, name))) : [folder];
}

/** A file, with its link target and the other parts of a split model. */
function withTargets(path: string): string[] {
  const split = /^(.*)-\d{5}(-of-\d{5}\.gguf)$/.exec(basename(path));
  const parts = split === null ? [path] : inside(dirname(path), (name) => name.startsWith(`${split[1]!}-`) && name.endsWith(split[2]!));
  return [...new Set([path, ...parts].flatMap((one) => [one, targetOf(one)]))];
}

function targetOf(path: string): string {
  try {
    return realpathSync(path);
  } catch {
    return path;
  }
}

function entriesOf(folder: string): string[] {
  try {
    return readdirSync(folder);
  } catch {
    return [];
  }
}

/** Folders where drivers cache compiled shaders and kernels. */
function driverCaches(environment: Environment): string[] {
  const home = homeFolder(environment);
  const caches = environment['XDG_CACHE_HOME'] || join(home, '.cache');
  return [join(home, '.nv'), ...['nvidia', 'mesa_shader_cache', 'mesa_shader_cache_db', 'radv_builtin_shaders64'].map((name) => join(caches, name)), '/dev/shm', '/tmp/nvidia-mps'];
}

let found: string[] | undefined;

/** The dynamic loader of Node's libraries, which the kernel starts with Node. */
function loaders(): string[] {
  return found ??= [...new Set(librariesInUse().match(/\/\S*\/ld-[^/\s]*\.so\S*/g) ?? [])];
}

function librariesInUse(): string {
  try {
    return readFileSync('/proc/self/maps', 'utf8');
  } catch {
    // Without /proc. The report takes many times longer.
    return (process.report.getReport() as { sharedObjects?: string[] }).sharedObjects?.join('\n') ?? '';
  }
}
