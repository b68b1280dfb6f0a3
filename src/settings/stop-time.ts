// How long a server may take to stop. Used by whatever waits for one: recua serve, the files of
// recua serve install, Kubernetes.

/** With `--cache-disk`, conversations are written at the end, for at most this long. */
export const savingSeconds = 20;
/** The last messages and traces, and the end of the engine processes. */
const endSeconds = 15;

/** After the drain time. The same for all servers: most end a second after their last answer. */
export const afterDrainSeconds = savingSeconds + endSeconds;
