use docstokg_content::sniff::{
    BodyFlaw, BodyJudgement, ExpectedContent, MIN_PDF_BYTES, Payload, PdfTail, ReceivedBody,
    classify, judge, pdf_tail,
};
use proptest::prelude::*;

#[test]
fn classify_names_the_payload_of_first_bytes() {
    let late = [vec![b'x'; 900], b"%PDF-1.4".to_vec()].concat();
    let too_late = [vec![b'x'; 1100], b"%PDF-1.4".to_vec()].concat();
    let mut tar = vec![0_u8; 512];
    tar[257..262].copy_from_slice(b"ustar");
    for (bytes, wanted) in [
        (b"%PDF-1.7\n".as_slice(), Payload::Pdf),
        (b"\xef\xbb\xbf \r\n%PDF-1.4", Payload::Pdf),
        (&late, Payload::Pdf),
        (&too_late, Payload::Unknown),
        (b"<!DOCTYPE html><html><body>%PDF-1.4</body>", Payload::Html),
        (b"\n\n<HTML><head>", Payload::Html),
        (b"<?xml version=\"1.0\"?><!DOCTYPE html PUBLIC \"-//W3C//DTD XHTML\"><html>", Payload::Html),
        (b"<?xml version=\"1.0\"?><feed xmlns=\"http://www.w3.org/2005/Atom\"/>", Payload::Xml),
        (b"<?xml version=\"1.0\"?><!DOCTYPE article PUBLIC \"-//NLM//DTD JATS v1.2//EN\" \"x.dtd\"><article>", Payload::Jats),
        (b"<article article-type=\"research-article\"><front><journal-meta/>", Payload::Jats),
        (b"PK\x03\x04rest", Payload::Zip),
        (b"\x1f\x8b\x08", Payload::Gzip),
        (&tar, Payload::Tar),
        (b"", Payload::Empty),
        (b"hello", Payload::Unknown),
        (b"{\"error\":1}", Payload::Unknown),
    ] {
        assert_eq!(classify(bytes), wanted, "{}", String::from_utf8_lossy(&bytes[..bytes.len().min(60)]));
    }
}

#[test]
fn the_end_of_a_pdf_tells_whether_it_is_whole() {
    assert_eq!(pdf_tail(b"startxref\n1\n%%EOF\n"), PdfTail::Complete);
    assert_eq!(pdf_tail(b"%%EOF\0\0\0\r\n"), PdfTail::Complete);
    assert_eq!(pdf_tail(b"endobj 12 0 obj"), PdfTail::EofMissing);
    assert_eq!(
        pdf_tail(b"%%EOF\n<script>x</script></body></html>"),
        PdfTail::HtmlTail
    );
    assert_eq!(
        pdf_tail(b"stream <html> in metadata endstream %%EOF"),
        PdfTail::Complete
    );
    assert_eq!(pdf_tail(b"cut <html><h1>502"), PdfTail::HtmlTail);
}

fn judged(body: &[u8], declared: Option<u64>, expected: ExpectedContent) -> BodyJudgement {
    let length = body.len() as u64;
    judge(
        &ReceivedBody {
            head: body,
            tail: body,
            length,
            declared_length: declared,
            expected,
        },
        MIN_PDF_BYTES,
    )
}

#[test]
fn judgement_names_the_flaw() {
    let pdf = |end: &str| format!("%PDF-1.4 {}{end}", "x".repeat(2000)).into_bytes();
    let rejected = |payload, reason| BodyJudgement::Rejected { payload, reason };
    let (any, wanted) = (ExpectedContent::Anything, ExpectedContent::Pdf);
    assert_eq!(
        judged(&pdf("%%EOF"), None, wanted),
        BodyJudgement::Accepted(Payload::Pdf)
    );
    assert_eq!(
        judged(&pdf("%%EOF"), Some(7), wanted),
        BodyJudgement::Accepted(Payload::Pdf)
    );
    let length = pdf("").len() as u64;
    for declared in [None, Some(length)] {
        assert_eq!(
            judged(&pdf(""), declared, wanted),
            rejected(Payload::Pdf, BodyFlaw::PdfEofMissing)
        );
    }
    assert_eq!(
        judged(&pdf(""), Some(9999), wanted),
        rejected(Payload::Pdf, BodyFlaw::PdfEofMissing)
    );
    assert_eq!(
        judged(&pdf("%%EOF</html>"), None, wanted),
        rejected(Payload::Pdf, BodyFlaw::HtmlTailDetected)
    );
    assert_eq!(
        judged(b"%PDF-1.4 %%EOF", None, wanted),
        rejected(Payload::Pdf, BodyFlaw::PdfTooSmall)
    );
    assert_eq!(
        judged(b"", None, any),
        rejected(Payload::Empty, BodyFlaw::EmptyBody)
    );
    assert_eq!(
        judged(b"garbage", None, wanted),
        rejected(Payload::Unknown, BodyFlaw::PdfSniffUnknown)
    );
    assert_eq!(
        judged(b"garbage", None, any),
        BodyJudgement::Accepted(Payload::Unknown)
    );
    assert_eq!(
        judged(b"<html>", None, wanted),
        BodyJudgement::Accepted(Payload::Html)
    );
    assert_eq!(
        judged(b"<html>", Some(100), any),
        rejected(Payload::Html, BodyFlaw::LengthMismatch)
    );
}

proptest! {
    #[test]
    fn classify_and_judge_read_any_bytes_without_a_panic(head in proptest::collection::vec(any::<u8>(), 0..600), tail in proptest::collection::vec(any::<u8>(), 0..100), length: u64, declared: Option<u64>) {
        let _ = judge(&ReceivedBody { head: &head, tail: &tail, length, declared_length: declared, expected: ExpectedContent::Pdf }, 1024);
    }
}
