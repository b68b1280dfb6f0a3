// What a pool of models is started with. Used by engine/gateway/pool.
import type { EngineSettings } from '../api.js';
import type { LeasePolicy } from '../leases/leases.js';
import type { SleepSettings } from '../sleep/sleep-cache.js';
import type { ClientSettings } from './client.js';

export interface PoolSettings extends Pick<EngineSettings, 'log' | 'logLevel'> {
  /** RAM for all models together; 0 or absent: what is free at start, less a reserve. */
  maxMemoryBytes?: number;
  /**
   * Memory of devices for all models together, by name; a device that is not named has no bound.
   */
  maxDeviceBytes?: Readonly<Record<string, number>>;
  /** Models at once; 0 or absent: as many as fit. */
  maxModels?: number;
  /** A load that makes no progress for so long is given up; ten minutes where absent. */
  loadTimeoutMs?: number;
  /** How conversations are kept of models that are unloaded; absent: not at all. */
  sleep?: SleepSettings;
  /** What the machine has left now; undefined where it does not tell. Tests give their own. */
  freeBytes?: () => number | undefined;
  /** How its engine processes are run. Tests give an entry with a fake addon. */
  engines?: Pick<ClientSettings, 'autoSandbox' | 'entry' | 'keepAlive' | 'restart' | 'stateFolder' | 'watch'>;
  policy?: Partial<LeasePolicy>;
}
