// Removes expired data from the disk: when a server starts, and every hour, since perhaps nobody
// asks for it or stores anything any more. Called by dialects whose stores keep data for a time.
import { RecuaError } from '../../errors.js';
import type { KeptFolder } from './kept-folder.js';

const hourMs = 3_600_000;

/** What it needs of the gateway. */
interface Around {
  kept: Pick<KeptFolder, 'mayHave'>;
  log(level: 'warn', text: string): void;
  traffic: { onDrain(listener: () => void): void };
}

/** Calls `tidy` if the folder of that name may hold something; it is not made for that. */
export function keepTidy({ kept, log, traffic }: Around, name: string, tidy: () => Promise<void>, everyMs = hourMs): void {
  const look = (): void => {
    if (kept.mayHave(name)) tidy().catch((thrown: unknown) => log('warn', `Expired data stays in the folder ${name} for now: ${RecuaError.logText(thrown)}`));
  };
  look();
  const timer = setInterval(look, everyMs).unref();
  traffic.onDrain(() => clearInterval(timer));
}
