// The file is where the id says, whatever the API does.
mod arxiv;
// Links for miners, and DataCite for what Crossref does not know.
mod crossref;
// Only what is open, and only of the work asked for.
mod europe_pmc;
// Pages, stubs and walls.
mod landing;
// All of them, with answers that nobody should trust.
pub(crate) mod mutations;
// Singles, lists, the spent budget, merged works.
mod openalex;
// Who is asked, and why.
mod order;
// Conversion, listing, metadata, checksums.
mod pmc;
// Mirrors and secrets.
mod settings;
// The list of all, and the table that is made of it.
mod specs;
// Copies ranked, addresses refused.
mod unpaywall;
// What is gone.
mod wayback;
