(() => {
  const search = document.getElementById("search");
  const rows = [...document.querySelectorAll("#failures tbody tr")].map((row) => [row, row.textContent.toLowerCase()]);
  const found = document.getElementById("found");
  search.addEventListener("input", () => {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const [row, text] of rows) {
      const fits = words.every((word) => text.includes(word));
      row.hidden = !fits;
      shown += fits;
    }
    found.textContent = `${shown} shown`;
  });
})();
