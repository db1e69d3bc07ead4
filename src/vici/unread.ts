/** What has come and nobody has taken yet, for one reader. */
export class Unread<T> {
  #items: T[] = [];
  #ended = false;
  #wake: (() => void) | undefined;

  /** `overflow` is called once more than `max` items wait. */
  constructor(readonly max: number, readonly overflow: (reason: RangeError) => void) {}

  push(item: T): void {
    if (this.#ended) return;
    this.#items.push(item);
    if (this.#items.length > this.max) {
      this.overflow(
        new RangeError(`Cannot hold more than ${this.max} unread events: the reader is too slow`),
      );
    }
    this.#woken();
  }

  /** No more will come; what is there can still be taken. */
  end(): void {
    this.#ended = true;
    this.#woken();
  }

  /** The next item; undefined at the end. */
  async take(): Promise<T | undefined> {
    await this.#filled();
    return this.#items.shift();
  }

  /** Everything that is there, at least one item; undefined at the end. */
  async takeAll(): Promise<T[] | undefined> {
    await this.#filled();
    if (this.#items.length === 0) return undefined;
    const items = this.#items;
    this.#items = [];
    return items;
  }

  #woken(): void {
    this.#wake?.();
    this.#wake = undefined;
  }

  async #filled(): Promise<void> {
    while (this.#items.length === 0 && !this.#ended) {
      await new Promise<void>((resolve) => this.#wake = resolve);
    }
  }
}
