//! Reads the statements of an RDF file one by one, in any RDF syntax.

use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use oxrdf::{GraphName, NamedOrBlankNode, Quad, Term};
use oxrdfxml::{RdfXmlParseError, RdfXmlParser, ReaderRdfXmlParser};
use oxttl::{NQuadsParser, NTriplesParser, TriGParser, TurtleParseError, TurtleParser};

use super::guard::read_ahead::ReadAhead;
use super::guard::turtle::TurtleGuard;
use super::guard::xml::XmlGuard;
use super::guard::{CountedReader, SharedWatch};
use super::report::FormatProblem;
use super::{FormatLimits, OntologyFormat, ReadOptions, jsonld};

/// The errors and warnings of one file, up to the maximum number that are listed.
#[derive(Debug, Default)]
pub(crate) struct FormatProblems {
    pub errors: Vec<FormatProblem>,
    pub error_count: u64,
    pub warnings: Vec<FormatProblem>,
    pub contexts_not_loaded: Vec<String>,
    /// True if the file is too large to be read with its keys in this order.
    pub is_unordered: bool,
    limit: usize,
}

impl FormatProblems {
    pub(crate) fn new(limits: &FormatLimits) -> Self {
        Self {
            limit: limits.max_problems.max(1),
            ..Self::default()
        }
    }

    pub(crate) fn error(&mut self, problem: FormatProblem) {
        self.error_count += 1;
        if self.errors.len() < self.limit {
            self.errors.push(problem);
        }
    }

    pub(crate) fn stop(&mut self, stop: Stop) {
        match stop {
            Stop::Refused(problem) => self.error(problem),
            Stop::Done => (),
        }
    }

    pub(crate) fn warning(&mut self, problem: FormatProblem) {
        if self.warnings.len() < self.limit {
            self.warnings.push(problem);
        }
    }

    /// Returns true if the limit on listed errors is reached, so that reading can stop.
    pub(crate) fn is_full(&self) -> bool {
        self.errors.len() >= self.limit
    }
}

/// The reason why the receiver of the statements stops reading.
pub(crate) enum Stop {
    /// The file is refused for this [`FormatProblem`].
    Refused(FormatProblem),
    /// Further statements are not needed. If this is because of an error, the receiver has recorded
    /// it.
    Done,
}

/// The callback that receives each statement, and can stop the reader.
pub(crate) type OnStatement<'a> = dyn FnMut(Quad) -> Result<(), Stop> + 'a;

/// Reads all statements of a file. Faults of its content are added to `problems`.
///
/// # Errors
/// The I/O error of `reader` if the file could not be read, which says nothing about its content.
pub(crate) fn read_statements(
    reader: impl Read + Send,
    format: OntologyFormat,
    options: &ReadOptions,
    problems: &mut FormatProblems,
    on_statement: &mut OnStatement<'_>,
) -> io::Result<u64> {
    let count = Arc::new(AtomicU64::new(0));
    read_counted(reader, format, options, &count, problems, on_statement)?;
    Ok(count.load(Ordering::Relaxed))
}

/// Reads all statements like [`read_statements`], and counts the bytes read in a counter that other
/// threads can see.
pub(crate) fn read_counted(
    reader: impl Read + Send,
    format: OntologyFormat,
    options: &ReadOptions,
    count: &Arc<AtomicU64>,
    problems: &mut FormatProblems,
    on_statement: &mut OnStatement<'_>,
) -> io::Result<()> {
    let counted = CountedReader::new(reader, Arc::clone(count), options.limits.max_bytes);
    let too_large = Arc::clone(&counted.exceeded);
    let watch = SharedWatch::default();
    let mut run = StatementRun {
        problems,
        on_statement,
        watch: Arc::clone(&watch),
    };
    let ended = match format {
        OntologyFormat::RdfXml => run.rdf_xml(counted, options),
        OntologyFormat::Turtle => {
            let parser = with_base(TurtleParser::new(), options, TurtleParser::with_base_iri);
            let guard = TurtleGuard::new(counted, &options.limits, watch);
            ReadAhead::over(guard, |ahead| {
                run.turtle(parser.for_reader(ahead).map(|t| t.map(in_default_graph)))
            })
        }
        OntologyFormat::TriG => {
            let parser = with_base(TriGParser::new(), options, TriGParser::with_base_iri);
            let guard = TurtleGuard::new(counted, &options.limits, watch);
            ReadAhead::over(guard, |ahead| run.turtle(parser.for_reader(ahead)))
        }
        OntologyFormat::NTriples => run.turtle(
            NTriplesParser::new()
                .for_reader(counted)
                .map(|t| t.map(in_default_graph)),
        ),
        OntologyFormat::NQuads => run.turtle(NQuadsParser::new().for_reader(counted)),
        OntologyFormat::JsonLd => jsonld::read(counted, options, run.problems, run.on_statement),
        other => {
            run.problems.error(FormatProblem::of_file(format!(
                "{other} has no RDF statements"
            )));
            Ok(())
        }
    };
    match ended {
        Err(error) if too_large.load(Ordering::Relaxed) => {
            problems.error(FormatProblem::of_file(error.to_string()));
            Ok(())
        }
        other => other,
    }
}

/// Estimates the memory of a statement, in bytes.
pub(crate) fn quad_bytes(quad: &Quad) -> usize {
    size_of_val(quad)
        + match &quad.subject {
            NamedOrBlankNode::NamedNode(node) => node.as_str().len(),
            NamedOrBlankNode::BlankNode(_) => 0,
        }
        + quad.predicate.as_str().len()
        + match &quad.object {
            Term::NamedNode(node) => node.as_str().len(),
            Term::BlankNode(_) => 0,
            Term::Literal(literal) => literal.value().len() + literal.datatype().as_str().len(),
        }
}

pub(crate) fn in_default_graph(triple: oxrdf::Triple) -> Quad {
    triple.in_graph(GraphName::DefaultGraph)
}

/// Sets the base address of a parser; an address that is not an IRI is ignored.
pub(crate) fn with_base<P: Clone, E>(
    parser: P,
    options: &ReadOptions,
    set: impl Fn(P, String) -> Result<P, E>,
) -> P {
    match &options.base_iri {
        Some(base) => set(parser.clone(), base.clone()).unwrap_or(parser),
        None => parser,
    }
}

pub(crate) fn turtle_problem(error: &oxttl::TurtleSyntaxError, lines_before: u64) -> FormatProblem {
    let start = error.location().start;
    let message = shorten(error.message());
    // If a statement is incomplete at the end of a line, the parser reports the next line.
    let is_at_line_end = message.starts_with("line jumps") || message.ends_with("by a dot");
    if start.column == 0 && is_at_line_end && start.line > 0 {
        return FormatProblem::at_line(start.line + lines_before, message);
    }
    FormatProblem {
        line: Some(start.line + 1 + lines_before),
        column: Some(start.column + 1),
        message,
    }
}

/// Shortens the message of a parser, because it may quote megabytes of the file.
pub(crate) fn shorten(message: &str) -> String {
    const LONGEST: usize = 400;
    let one_line = message.split_whitespace();
    let mut out = String::new();
    for word in one_line {
        if out.len() + word.len() > LONGEST {
            out.push(' ');
            out.extend(word.chars().take(LONGEST.saturating_sub(out.len())));
            out.push('…');
            return out.trim_start().to_owned();
        }
        out.push(' ');
        out.push_str(word);
    }
    out.trim_start().to_owned()
}

struct StatementRun<'a, 'b> {
    problems: &'a mut FormatProblems,
    on_statement: &'a mut OnStatement<'b>,
    watch: SharedWatch,
}

impl StatementRun<'_, '_> {
    fn turtle(
        &mut self,
        statements: impl Iterator<Item = Result<Quad, TurtleParseError>>,
    ) -> io::Result<()> {
        for statement in statements {
            match statement {
                Ok(quad) => {
                    if let Err(stop) = (self.on_statement)(quad) {
                        self.problems.stop(stop);
                        return Ok(());
                    }
                }
                Err(TurtleParseError::Syntax(error)) => {
                    self.problems.error(turtle_problem(&error, 0));
                    if self.problems.is_full() {
                        return Ok(());
                    }
                }
                Err(TurtleParseError::Io(error)) => {
                    let failure = self.watch.lock().failure.take();
                    return match failure {
                        Some(problem) => {
                            self.problems.error(problem);
                            Ok(())
                        }
                        // This is how the lexer reports a token that is too long.
                        None if error.kind() == io::ErrorKind::OutOfMemory => {
                            self.problems
                                .error(FormatProblem::of_file("a literal or name is too long"));
                            Ok(())
                        }
                        None => Err(error),
                    };
                }
            }
        }
        Ok(())
    }

    fn rdf_xml(&mut self, reader: impl Read + Send, options: &ReadOptions) -> io::Result<()> {
        let parser = with_base(RdfXmlParser::new(), options, RdfXmlParser::with_base_iri);
        let guard = XmlGuard::new(reader, options.limits.clone(), Arc::clone(&self.watch));
        let ended = ReadAhead::over(guard, |ahead| self.triples(parser.for_reader(ahead)));
        let warnings = std::mem::take(&mut self.watch.lock().warnings);
        for warning in warnings {
            self.problems.warning(warning);
        }
        ended
    }

    fn triples(&mut self, mut statements: ReaderRdfXmlParser<ReadAhead>) -> io::Result<()> {
        while let Some(statement) = statements.next() {
            match statement {
                Ok(triple) => {
                    if let Err(stop) = (self.on_statement)(in_default_graph(triple)) {
                        self.problems.stop(stop);
                        return Ok(());
                    }
                }
                // After an error, the parser no longer knows its position, and may return
                // statements that are not in the file.
                Err(error) => return self.rdf_xml_error(error, statements.buffer_position()),
            }
        }
        Ok(())
    }

    fn rdf_xml_error(&mut self, error: RdfXmlParseError, offset: u64) -> io::Result<()> {
        let mut watch = self.watch.lock();
        match error {
            // The guard is ahead of the parser, so report its refusal only when the parser gets
            // there.
            RdfXmlParseError::Io(error) => match watch.failure.take() {
                Some(problem) => {
                    self.problems.error(problem);
                    Ok(())
                }
                None => Err(error),
            },
            RdfXmlParseError::Syntax(error) => {
                let (line, column) = watch.lines.position(offset.saturating_sub(1));
                self.problems.error(FormatProblem {
                    line: Some(line),
                    column: Some(column),
                    message: shorten(&error.to_string()),
                });
                Ok(())
            }
        }
    }
}
