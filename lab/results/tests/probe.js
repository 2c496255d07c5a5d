// Writes on the page itself what a browser made of it: charts that are drawn, what was asked for over a network, and,
// where axe-core was loaded before, what that finds.
const checked = typeof axe === "undefined" ? Promise.resolve({ violations: [] }) : axe.run(document, { resultTypes: ["violations"] });
checked.then((found) => {
  const drawn = [...document.querySelectorAll("svg")].filter((svg) => {
    const box = svg.getBoundingClientRect();
    return box.width > 100 && box.height > 30 && svg.querySelectorAll("rect,circle,polyline,polygon,line").length > 3;
  });
  const violations = found.violations.map((v) => ({
    id: v.id,
    impact: v.impact,
    where: v.nodes.slice(0, 3).map((node) => node.html.slice(0, 120)),
  }));
  const wide = document.documentElement.scrollWidth > window.innerWidth;
  const said = { drawn: drawn.length, requests: performance.getEntriesByType("resource").length, wide, violations };
  document.documentElement.setAttribute("data-probe", JSON.stringify(said));
});
