use super::*;

/// URLs with secrets, and their redacted forms.
const WITH_SECRETS: [(&str, &str); 37] = [
    (
        "https://me:pw@example.org/a?b=1#f",
        "https://example.org/a?b=1",
    ),
    (
        "https://example.org/?api_key=SECRET&q=x&X-Amz-Signature=abc",
        "https://example.org/?api_key=***&q=x&X-Amz-Signature=***",
    ),
    (
        "https://example.org/?email=me@home.org&keyword=x&token=",
        "https://example.org/?email=***&keyword=x&token=",
    ),
    (
        "https://example.org:8443/token/abc/file.pdf",
        "https://example.org:8443/token/***/file.pdf",
    ),
    (
        "https://example.org/a;jsessionid=12AB/b",
        "https://example.org/a;jsessionid=***/b",
    ),
    (
        "https://example.org/d/eyJhbGciOi.eyJzdWIi.c2ln/x.pdf",
        "https://example.org/d/***/x.pdf",
    ),
    (
        "https://example.org/s/aB3dE5fG7hI9jK1lM3nO5/x.pdf",
        "https://example.org/s/***/x.pdf",
    ),
    (
        "https://example.org/s/d41d8cd98f00b204e9800998ecf8427e",
        "https://example.org/s/***",
    ),
    (
        "https://example.org/f?u=aB3dE5fG7hI9jK1lM3nO5",
        "https://example.org/f?u=***",
    ),
    (
        "https://example.org/cdx?url=http%3A%2F%2Fa.org%2Fx%3Fapi_key%3DSECRET&x=1",
        "https://example.org/cdx?url=***&x=1",
    ),
    (
        "https://example.org/?a=1;token=SECRET;b=2",
        "https://example.org/?a=1;token=***;b=2",
    ),
    (
        "https://example.org/?auth[token]=SECRET&user%5Bpassword%5D=SECRET",
        "https://example.org/?auth[token]=***&user%5Bpassword%5D=***",
    ),
    (
        "https://example.org/?%74oken=SECRET&apiKey=SECRET&sessionToken=SECRET",
        "https://example.org/?%74oken=***&apiKey=***&sessionToken=***",
    ),
    (
        "https://example.org/?insttoken=SECRET&httpAccept=x&hdnea=SECRET",
        "https://example.org/?insttoken=***&httpAccept=x&hdnea=***",
    ),
    (
        "https://example.org/?Policy=SECRET&Signature=SECRET&Key-Pair-Id=SECRET",
        "https://example.org/?Policy=***&Signature=***&Key-Pair-Id=***",
    ),
    (
        "https://example.org/?sv=2020&sig=SECRET&se=2026",
        "https://example.org/?sv=2020&sig=***&se=2026",
    ),
    (
        "https://example.org/?next=%2Fa%3Fticket%3DSECRET",
        "https://example.org/?next=***",
    ),
    // The code of a sign-in is a credential until it is used. Its nonce belongs to one session.
    (
        "https://example.org/back?code=SECRET&state=xyz",
        "https://example.org/back?code=***&state=xyz",
    ),
    (
        "https://example.org/back?session_state=xyz&Co%64e=SECRET",
        "https://example.org/back?session_state=xyz&Co%64e=***",
    ),
    (
        "https://id.example/oauth2/v1/login?nonce=SECRET&scope=openid",
        "https://id.example/oauth2/v1/login?nonce=***&scope=openid",
    ),
    (
        "https://example.org/signin-oidc?code=SECRET",
        "https://example.org/signin-oidc?code=***",
    ),
    (
        "https://example.org/x?code_verifier=SECRET",
        "https://example.org/x?code_verifier=***",
    ),
    // A sign-in may return to any path, and need not have a `state`.
    (
        "https://example.org/x?code=SECRET",
        "https://example.org/x?code=***",
    ),
    (
        "https://example.org/x?jwt:SECRET&page=2",
        "https://example.org/x?jwt:***&page=2",
    ),
    (
        "https://example.org/x?jwt%3ASECRET==",
        "https://example.org/x?jwt%3A***",
    ),
    (
        "https://example.org/token:abc/a.pdf",
        "https://example.org/token:***/a.pdf",
    ),
    (
        "https://example.org/x?q=api_key:SECRET",
        "https://example.org/x?q=***",
    ),
    (
        "https://example.org/x?token_hash=SECRET&api_key_2=SECRET&token2=SECRET",
        "https://example.org/x?token_hash=***&api_key_2=***&token2=***",
    ),
    (
        "https://example.org/x?X-Signature-256=SECRET&ticketId=SECRET",
        "https://example.org/x?X-Signature-256=***&ticketId=***",
    ),
    (
        "https://example.org/x?authentication=SECRET",
        "https://example.org/x?authentication=***",
    ),
    (
        "https://example.org/x?auth_code=SECRET&authcode=SECRET&authorization_code=SECRET&oauthCode=SECRET",
        "https://example.org/x?auth_code=***&authcode=***&authorization_code=***&oauthCode=***",
    ),
    (
        "https://example.org/x?device_code=SECRET&access-code=SECRET&verificationCode=SECRET",
        "https://example.org/x?device_code=***&access-code=***&verificationCode=***",
    ),
    (
        "https://example.org/x?passcode=SECRET&xsrf=SECRET&AuthInfo=SECRET&X-Auth-Header=SECRET",
        "https://example.org/x?passcode=***&xsrf=***&AuthInfo=***&X-Auth-Header=***",
    ),
    (
        "https://example.org/x?sessiondata=SECRET&credentials_json=SECRET&apikeys=SECRET&api-keys=SECRET",
        "https://example.org/x?sessiondata=***&credentials_json=***&apikeys=***&api-keys=***",
    ),
    (
        "https://example.org/x?keyid=SECRET&sign=SECRET&SAMLResponse=SECRET&code:SECRET",
        "https://example.org/x?keyid=***&sign=***&SAMLResponse=***&code:***",
    ),
    (
        "https://example.org/x?jwt%253ASECRET&token%25253DSECRET",
        "https://example.org/x?jwt%253A***&token=***",
    ),
    (
        "https://example.org/go?to=https%3A%2F%2Fa.example%2Fauth%2Fcallback%3Fcode%3DSECRET",
        "https://example.org/go?to=***",
    ),
];

#[test]
fn redact_hides_every_secret_of_a_url() {
    for (url, shown) in WITH_SECRETS {
        assert_eq!(redact(&Url::parse(url).unwrap()), shown);
    }
}

#[test]
fn redact_text_hides_secrets_outside_of_urls() {
    for (text, shown) in [
        (
            "W27R.example/x.pdf?token=SECRET",
            "W27R.example/x.pdf?token=***",
        ),
        (
            "http:/\u{202e}/a.example/x.pdf?a=1&apiKey=SECRET&b",
            "http:/\u{202e}/a.example/x.pdf?a=1&apiKey=***&b",
        ),
        (
            "a.example/back?code=SECRET&redirect_uri=x",
            "a.example/back?code=***&redirect_uri=x",
        ),
        (
            "a.example/x?jwt:SECRET and token:SECRET",
            "a.example/x?jwt:*** and token:***",
        ),
        (
            "see http://me:SECRET@a b.example/",
            "see http://***@a b.example/",
        ),
        (
            "10.1000/182 A title; with = signs, and 100 %",
            "10.1000/182 A title; with = signs, and 100 %",
        ),
        ("mailto:x@y.example", "mailto:x@y.example"),
        ("", ""),
    ] {
        assert_eq!(redact_text(text), shown);
    }
}

#[test]
fn redact_keeps_text_that_is_not_secret() {
    for url in [
        "https://api.crossref.org/works/10.1016/S0140-6736(20)30183-5",
        "https://www.nature.com/articles/s41586-020-2649-2.pdf",
        "https://example.org/a-long-title-of-a-paper-from-2020-that-goes-on",
        "https://export.arxiv.org/pdf/2101.00001v2",
        "https://pmc-oa-opendata.s3.amazonaws.com/PMC7029759.1/PMC7029759.1.pdf?md5=x",
        "https://api.openalex.org/works?filter=doi:10.1/a%7C10.1/b&per_page=100",
        "https://example.org/search?keyword=monkey&tokens=3&keys=a,b&signatures=2",
        "https://example.org/turkey/istanbul?author=smith&page=3",
        "https://example.org/search?first_author=smith&authors=a,b&author.id=A5&authority=x",
        "https://example.org/search?design=x&country-code=DE&zipcode=12345&design_code=4",
        "https://example.org/articles?code=A12&year=2020",
        "https://example.org/units?code=9780123456789",
        "https://example.org/session-12/paper.pdf",
        "https://example.org/doi:10.1000/182?id=urn:nbn:de:1",
        "https://example.org/units?country_code=DE&code=10.5555",
        "https://example.org/search?nonce=word&page=2",
        "https://example.org/authors?state=CA&page=2",
        "http://127.0.0.1:8080/",
        "http://[::1]:8080/a?",
    ] {
        assert_eq!(redact(&Url::parse(url).unwrap()), url);
    }
}

use proptest::prelude::*;

proptest! {
    /// A secret never appears, however its name is written and wherever its pair is in the URL.
    #[test]
    fn redact_hides_a_secret_name_in_any_spelling(
        start in prop_oneof![Just(""), Just("x"), Just("amz"), Just("inst"), Just("user")],
        word in prop_oneof![
            Just("token"), Just("key"), Just("secret"), Just("password"), Just("signature"),
            Just("ticket"), Just("jwt"),
        ],
        style in 0..6u8,
        encoded in prop::collection::vec(any::<bool>(), 30),
        separator in prop_oneof![Just("&"), Just(";")],
        before in any::<bool>(),
        secret in "[a-z]{6,9}",
    ) {
        let capital = |text: &str| {
            let (first, rest) = text.split_at(1);
            format!("{}{rest}", first.to_ascii_uppercase())
        };
        let name = match (start, style) {
            ("", 0) => word.to_ascii_uppercase(),
            ("", _) => word.to_owned(),
            (start, 0) => format!("{start}_{word}"),
            (start, 1) => format!("{start}-{}", capital(word)),
            (start, 2) => format!("{start}{}", capital(word)),
            (start, 3) => format!("{start}[{word}]"),
            (start, 4) => format!("{start}.{word}"),
            (start, _) => format!("{}_{}", start.to_ascii_uppercase(), word.to_ascii_uppercase()),
        };
        let spell = |(byte, encode): (u8, bool)| if encode {
            format!("%{byte:02X}")
        } else {
            char::from(byte).to_string()
        };
        let encoded = encoded.into_iter().chain(std::iter::repeat(false));
        let name: String = name.bytes().zip(encoded).map(spell).collect();
        let other = format!("q=words{separator}page=2");
        let query = if before {
            format!("{name}={secret}{separator}{other}")
        } else {
            format!("{other}{separator}{name}={secret}")
        };
        let url = Url::parse(&format!("https://example.org/a/b?{query}")).unwrap();
        let shown = redact(&url);
        prop_assert!(!shown.contains(&secret), "{url} is shown as {shown}");
        prop_assert!(shown.contains("page=2"));
    }

    /// A secret never appears in the redacted form of a URL, wherever it is:
    ///
    /// - in the path or before the host;
    /// - in the fragment;
    /// - within another URL, or in other text.
    #[test]
    fn fuzz_a_secret_anywhere_does_not_show(
        name in prop_oneof![
            Just("token"), Just("api_key"), Just("sessionToken"), Just("auth%54oken"),
            Just("X-Amz-Signature"), Just("user[password]"), Just("jwt"),
        ],
        form in 0..7u8,
        times in 0..3usize,
        words in "[a-z]{3,8}",
        secret in "[a-z]{6,9}",
    ) {
        // If the secret happens to be a word of the URL, its appearance proves nothing.
        prop_assume!(!format!("https://example.org/{words}/{name}/next/x/url").contains(&secret));
        let encode = |url: String| {
            let all = percent_encoding::NON_ALPHANUMERIC;
            percent_encoding::utf8_percent_encode(&url, all).to_string()
        };
        let nested = |times: usize| {
            let inner = format!("https://other.example/{words}?{name}={secret}");
            (0..times).fold(inner, |url, _| encode(url))
        };
        let text = match form {
            0 => format!("https://{words}:{secret}@example.org/{words}"),
            1 => format!("https://example.org/{words};{name}={secret}/x"),
            2 => format!("https://example.org/{words}#{name}={secret}"),
            3 => format!("https://example.org/{words}?next={}", nested(times + 1)),
            4 => format!("https://example.org/{words}?a=1&{name}={secret}&{name}={secret}"),
            5 => format!("https://example.org/{words}?{name}%3D{secret}"),
            _ => format!("https://example.org/{words}?{words}=1;{name}={secret}"),
        };
        let url = Url::parse(&text).unwrap();
        let shown = redact(&url);
        prop_assert!(!shown.contains(&secret), "{text} is shown as {shown}");
        let quoted = redact_text(&format!("{words} {text} {words}"));
        prop_assert!(!quoted.contains(&secret), "{text} is quoted as {quoted}");
    }

    #[test]
    fn fuzz_any_text_is_shown_without_a_panic(text in ".{0,200}", seed in any::<u64>()) {
        let _ = redact_text(&text);
        let url = "https://me:pw@example.org:80/a;jsessionid=1/token/x\
                   ?a[b]=%3D%25&url=http%3A%2F%2Fa%3Fkey%3D1#f";
        let bytes = docstokg_origin_sim::hostile::mutated(seed, url.as_bytes());
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let _ = redact_text(&text);
        if let Ok(url) = Url::parse(&text) {
            let _ = redact(&url);
        }
    }
}
