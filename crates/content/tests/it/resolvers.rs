// The file is where the id says, whatever the API does.
mod arxiv;
// Links for miners, and DataCite for what Crossref does not know.
mod crossref;
// Articles of open journals, files and pages told apart.
mod doaj;
// Only what is open, and only of the work asked for.
mod europe_pmc;
// The article among the files of an item, and what belongs to an article only.
mod figshare;
// Documents by DOI and by their own ids.
mod hal;
// Pages, stubs and walls.
mod landing;
// All of them, with answers that nobody should trust.
pub(crate) mod mutations;
// Singles, lists, the spent budget, merged works.
mod openalex;
// Who is asked, and why.
mod order;
// Preprints by their ids.
mod osf;
// Conversion, listing, metadata, checksums.
mod pmc;
// Mirrors and secrets.
mod settings;
// The list of all, and the table that is made of it.
mod specs;
// Copies ranked, addresses refused.
mod title_search;
mod unpaywall;
// What is gone.
mod wayback;
// The article among the files of a record.
mod zenodo;
