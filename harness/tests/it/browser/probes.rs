//! Expressions that look at a page from inside.

/// Elements that reach beyond the window, but for those inside a box that scrolls.
pub const OVERFLOWING: &str = "(() => {
  const out = [];
  if (document.documentElement.scrollWidth > innerWidth) out.push('the page');
  for (const e of document.querySelectorAll('body *')) {
    const box = e.parentElement.closest('.scroll, .wide, svg');
    const r = e.getBoundingClientRect();
    if (!box && r.width > 1 && (r.right > innerWidth + 0.5 || r.left < -0.5)) out.push(e.outerHTML.slice(0, 120));
  }
  return out;
})()";

/// Texts of one chart that cover each other, or reach beyond it.
pub const COVERED: &str = "(() => {
  const out = [];
  for (const svg of document.querySelectorAll('svg.chart')) {
    const frame = svg.getBoundingClientRect();
    const texts = [...svg.querySelectorAll('text:not(.letter)')].map((t) => [t.textContent, t.getBoundingClientRect()]);
    texts.forEach(([a, r], i) => {
      if (r.width > 0 && (r.left < frame.left - 1 || r.right > frame.right + 1 || r.bottom > frame.bottom + 1 || r.top < frame.top - 1)) out.push(`${a} leaves its chart`);
      for (const [b, s] of texts.slice(i + 1)) {
        const width = Math.min(r.right, s.right) - Math.max(r.left, s.left);
        const height = Math.min(r.bottom, s.bottom) - Math.max(r.top, s.top);
        if (width > 2 && height > 4) out.push(`${a} / ${b}`);
      }
    });
  }
  return out;
})()";

/// Labels of axes beyond what they can be: a share of more than 100 %, a length below 0.
pub const BEYOND: &str = "(() => {
  const texts = [...document.querySelectorAll('svg.chart text')].map((t) => t.textContent.trim());
  const share = (text) => /^[\\d.,]+ %$/.test(text) && Number(text.replace(/[^\\d.]/g, '')) > 100;
  return texts.filter((text) => share(text) || /^[-−]\\$?\\d/.test(text));
})()";

/// Charts of this window that show nothing, and windows without a chart.
pub const EMPTY: &str = "(() => {
  const shown = [...document.querySelectorAll('svg.chart')].filter((s) => s.checkVisibility());
  const empty = shown.filter((s) => !s.querySelector('[data-x], [data-value], .span'));
  const figures = document.querySelectorAll('figure').length;
  return [...empty.map((s) => s.querySelector('title').textContent), ...(figures > 0 && shown.length === 0 ? ['no chart'] : [])];
})()";

/// Which claims are shown, and what the bar says.
pub const SHOWN: &str = "[[...document.querySelectorAll('#table-verdicts tbody tr')].filter((r) => r.checkVisibility())\
    .map((r) => r.dataset.verdict + ' ' + r.dataset.system), document.querySelector('#view output').textContent]";

/// The least contrast, by WCAG 2, of any text against what lies behind it.
pub const CONTRAST: &str = "(() => {
  const rgb = (text) => text.match(/[\\d.]+/g).map(Number);
  const light = (c) => { const f = (v) => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
    return 0.2126 * f(c[0]) + 0.7152 * f(c[1]) + 0.0722 * f(c[2]); };
  const behind = (e) => { for (; e; e = e.parentElement) { const c = rgb(getComputedStyle(e).backgroundColor);
    if (c.length === 3 || c[3] > 0) return c; } return [255, 255, 255]; };
  let least = [99, ''];
  for (const e of document.querySelectorAll('body *:not(script):not(style)')) {
    const says = [...e.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim());
    if (!says || !e.checkVisibility() || e.closest('title, desc, caption, .here')) continue;
    const style = getComputedStyle(e);
    const [a, b] = [light(rgb(e.closest('svg') ? style.fill : style.color)), light(behind(e))];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < least[0]) least = [ratio, e.outerHTML.slice(0, 100)];
  }
  return least;
})()";
