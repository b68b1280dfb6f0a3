// Whether a link could be made. Some file systems have no links (exFAT, many network drives), and
// Windows wants rights for symbolic ones. Used by locks and the model store.

/** EISDIR is what Windows says on exFAT. */
const refusals: readonly unknown[] = ['EPERM', 'EACCES', 'ENOSYS', 'ENOTSUP', 'EOPNOTSUPP', 'EINVAL', 'EISDIR', 'EMLINK', 'UNKNOWN'];

/** False if the system or the user's rights do not allow a link. */
export async function worked(making: Promise<void>): Promise<boolean> {
  try {
    await making;
    return true;
  } catch (error) {
    if (refusals.includes((error as NodeJS.ErrnoException).code)) return false;
    throw error;
  }
}
