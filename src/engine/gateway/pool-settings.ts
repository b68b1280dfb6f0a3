// Settings of a pool of models. Used by engine/gateway/pool.
import type { EngineSettings } from '../api.js';
import type { LeasePolicy } from '../leases/leases.js';
import type { SleepSettings } from '../sleep/sleep-cache.js';
import type { ClientSettings } from './client.js';

export interface PoolSettings extends Pick<EngineSettings, 'log' | 'logLevel'> {
  /** RAM for all models together; 0 or absent: the memory free at start, less a reserve. */
  maxMemoryBytes?: number;
  /** Device memory for all models together, by device name; devices not named have no bound. */
  maxDeviceBytes?: Readonly<Record<string, number>>;
  /** Most loaded models; 0 or absent: as many as fit. */
  maxModels?: number;
  /** A load without progress for this long fails. Default: ten minutes. */
  loadTimeoutMs?: number;
  /** How to keep conversations of unloaded models; absent: they are not kept. */
  sleep?: SleepSettings;
  /** Memory that the machine has left now; undefined if unknown. Tests pass their own. */
  freeBytes?: () => number | undefined;
  /** How to run the engine processes. Tests pass an entry with a fake addon. */
  engines?: Pick<ClientSettings, 'autoSandbox' | 'entry' | 'keepAlive' | 'restart' | 'stateFolder' | 'watch'>;
  policy?: Partial<LeasePolicy>;
}
