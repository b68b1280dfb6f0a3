// The graphics hardware and drivers of this machine, as far as files show them. For `recua doctor`,
// which names the package that fits.
import { accessSync, constants, existsSync, readFileSync, readdirSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { findProgram } from '../../system/programs.js';

export interface Graphics {
  /**
   * Makers of the display controllers on the PCI bus: 'NVIDIA', 'AMD', 'Intel', or a vendor ID.
   */
  makers: string[];
  /** Version of NVIDIA's kernel module; '' if it is not loaded. */
  nvidiaDriver: string;
  /** Path of nvidia-smi; '' if it is not on the PATH. */
  nvidiaSmi: string;
  /** Description files of the installed Vulkan drivers. */
  vulkanDrivers: string[];
  /** /dev/dri/renderD128 and the like; `usable`: this user may open it. */
  renderNodes: { path: string; usable: boolean }[];
}

type Environment = Readonly<Record<string, string | undefined>>;

const makers: Readonly<Record<string, string>> = { '0x10de': 'NVIDIA', '0x1002': 'AMD', '0x8086': 'Intel' };

/** `root` replaces `/` in tests. */
export function findGraphics(root = '/', environment: Environment = process.env): Graphics {
  return {
    makers: displayMakers(join(root, 'sys/bus/pci/devices')),
    nvidiaDriver: /Kernel Module(?: for \S+)?\s+(\d[\d.]*)/.exec(contents(join(root, 'proc/driver/nvidia/version')))?.[1] ?? '',
    nvidiaSmi: findProgram('nvidia-smi', environment['PATH']) ?? '',
    vulkanDrivers: vulkanDrivers(root, environment),
    renderNodes: names(join(root, 'dev/dri')).filter((name) => name.startsWith('renderD'))
      .map((name) => ({ path: join(root, 'dev/dri', name), usable: isUsable(join(root, 'dev/dri', name)) })),
  };
}

function displayMakers(folder: string): string[] {
  const found = names(folder).filter((name) => contents(join(folder, name, 'class')).startsWith('0x03'))
    .map((name) => contents(join(folder, name, 'vendor')).trim());
  return [...new Set(found.map((vendor) => makers[vendor] ?? vendor))].filter((name) => name !== '').sort();
}

/** Where the Vulkan loader looks, in its order. */
function vulkanDrivers(root: string, environment: Environment): string[] {
  const named = environment['VK_DRIVER_FILES'] || environment['VK_ICD_FILENAMES'];
  if (named) return named.split(delimiter).filter((path) => path !== '' && existsSync(path));
  const folders = ['etc/vulkan/icd.d', 'usr/local/etc/vulkan/icd.d', 'usr/local/share/vulkan/icd.d', 'usr/share/vulkan/icd.d'];
  return folders.flatMap((folder) => names(join(root, folder)).filter((name) => name.endsWith('.json')).map((name) => join(root, folder, name)));
}

function names(folder: string): string[] {
  try {
    return readdirSync(folder).sort();
  } catch {
    return [];
  }
}

function contents(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return '';
  }
}

function isUsable(path: string): boolean {
  return may(path, constants.R_OK | constants.W_OK);
}

function may(path: string, mode: number): boolean {
  try {
    accessSync(path, mode);
    return true;
  } catch {
    return false;
  }
}

/** The backend whose package fits this hardware; undefined if none does. */
export function fittingBackend({ nvidiaDriver, makers: found, renderNodes }: Graphics, { platform, arch }: { platform: string; arch: string }): 'cuda' | 'vulkan' | undefined {
  if (platform !== 'linux') return undefined;
  // There is no package with CUDA for others: see npm/targets.json.
  if (nvidiaDriver !== '' && arch === 'x64') return 'cuda';
  return found.some((maker) => ['NVIDIA', 'AMD', 'Intel'].includes(maker)) && renderNodes.length > 0 ? 'vulkan' : undefined;
}
