// What the engine's loop sleeps on. A wake() while nobody sleeps is lost: the loop checks for work
// before it sleeps.

export class Wakeup {
  #wake: (() => void) | undefined;

  wake(): void {
    this.#wake?.();
  }

  /** Resolves at wake(), or after `mostMs`. One sleeper at a time. */
  async sleep(mostMs = Infinity): Promise<void> {
    let timer: NodeJS.Timeout | undefined;
    await new Promise<void>((resolve) => {
      this.#wake = resolve;
      if (mostMs < Infinity) timer = setTimeout(resolve, mostMs);
    });
    clearTimeout(timer);
    this.#wake = undefined;
  }
}
