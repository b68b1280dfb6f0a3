// Preact and htm: components without a compiler.
import { Component, h, render } from '../vendor/preact.js';
import { useCallback, useEffect, useLayoutEffect, useMemo, useRef, useState } from '../vendor/hooks.js';
import htm from '../vendor/htm.js';

/** @type {(strings: TemplateStringsArray, ...values: any[]) => any} */
export const html = htm.bind(h);

/**
 * A component that is redrawn only when one of its properties changes.
 * @param {(props: any) => any} view
 */
export function memo(view) {
  return class extends Component {
    /** @param {any} next */
    shouldComponentUpdate(next) {
      const now = /** @type {any} */ (this.props);
      return Object.keys({ ...now, ...next }).some((key) => now[key] !== next[key]);
    }

    /** @param {any} props */
    render(props) {
      return h(view, props);
    }
  };
}

export { h, render, useCallback, useEffect, useLayoutEffect, useMemo, useRef, useState };
