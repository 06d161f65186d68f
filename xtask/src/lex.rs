//! Rust source as tokens, as much as the house rules and the op scanner need: comments dropped, strings unescaped.
//! Not a parser: it knows brackets, but no grammar.

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tok {
    /// A name, keyword or number.
    Word(String),
    /// The value of a string literal of any kind.
    Str(String),
    Punct(char),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    pub tok: Tok,
    pub line: usize,
}

impl Token {
    pub fn is(&self, c: char) -> bool {
        self.tok == Tok::Punct(c)
    }
    pub fn is_word(&self, w: &str) -> bool {
        matches!(&self.tok, Tok::Word(x) if x == w)
    }
    pub fn word(&self) -> Option<&str> {
        match &self.tok {
            Tok::Word(w) => Some(w),
            _ => None,
        }
    }
    pub fn str(&self) -> Option<&str> {
        match &self.tok {
            Tok::Str(s) => Some(s),
            _ => None,
        }
    }
}

pub fn tokens(text: &str) -> Vec<Token> {
    Lexer { chars: text.chars().collect(), at: 0, line: 1, out: Vec::new() }.run()
}

/// The index of the bracket that closes the one at `open`, or the end.
pub fn matching(tokens: &[Token], open: usize) -> usize {
    let mut depth = 0usize;
    for (i, token) in tokens.iter().enumerate().skip(open) {
        match token.tok {
            Tok::Punct('(' | '[' | '{') => depth += 1,
            Tok::Punct(')' | ']' | '}') => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return i;
                }
            }
            _ => {}
        }
    }
    tokens.len()
}

struct Lexer {
    chars: Vec<char>,
    at: usize,
    line: usize,
    out: Vec<Token>,
}

impl Lexer {
    fn run(mut self) -> Vec<Token> {
        while let Some(c) = self.peek(0) {
            match c {
                '/' if self.peek(1) == Some('/') => self.skip_line(),
                '/' if self.peek(1) == Some('*') => self.skip_block(),
                '"' => self.string(),
                '\'' => self.quote(),
                c if c.is_whitespace() => {
                    self.bump();
                }
                c if c.is_alphanumeric() || c == '_' => self.word(),
                c => {
                    self.push(Tok::Punct(c), self.line);
                    self.bump();
                }
            }
        }
        self.out
    }

    fn peek(&self, ahead: usize) -> Option<char> {
        self.chars.get(self.at + ahead).copied()
    }

    fn bump(&mut self) -> Option<char> {
        let c = self.peek(0)?;
        self.at += 1;
        self.line += usize::from(c == '\n');
        Some(c)
    }

    fn push(&mut self, tok: Tok, line: usize) {
        self.out.push(Token { tok, line });
    }

    fn skip_line(&mut self) {
        while self.peek(0).is_some_and(|c| c != '\n') {
            self.bump();
        }
    }

    fn skip_block(&mut self) {
        let mut depth = 0usize;
        loop {
            match (self.peek(0), self.peek(1)) {
                (Some('/'), Some('*')) => {
                    depth += 1;
                    self.bump();
                }
                (Some('*'), Some('/')) => {
                    depth -= 1;
                    self.bump();
                }
                (None, _) => return,
                _ => {}
            }
            self.bump();
            if depth == 0 {
                return;
            }
        }
    }

    /// A name or number, or the prefix of a raw, byte or C string.
    fn word(&mut self) {
        let line = self.line;
        let mut word = String::new();
        while let Some(c) = self.peek(0).filter(|c| c.is_alphanumeric() || *c == '_') {
            word.push(c);
            self.bump();
        }
        let hashes = (0..).take_while(|i| self.peek(*i) == Some('#')).count();
        let raw = matches!(word.as_str(), "r" | "br" | "cr") && self.peek(hashes) == Some('"');
        match word.as_str() {
            _ if raw => self.raw_string(hashes),
            "b" | "c" if self.peek(0) == Some('"') => self.string(),
            _ => self.push(Tok::Word(word), line),
        }
    }

    fn raw_string(&mut self, hashes: usize) {
        let line = self.line;
        for _ in 0..=hashes {
            self.bump();
        }
        let mut value = String::new();
        while let Some(c) = self.bump() {
            if c == '"' && (0..hashes).all(|i| self.peek(i) == Some('#')) {
                self.at += hashes;
                break;
            }
            value.push(c);
        }
        self.push(Tok::Str(value), line);
    }

    fn string(&mut self) {
        let line = self.line;
        self.bump();
        let mut value = String::new();
        while let Some(c) = self.bump() {
            match c {
                '"' => break,
                '\\' => match self.bump() {
                    Some('n') => value.push('\n'),
                    Some('t') => value.push('\t'),
                    // A line continuation: the line break and the indent after it are not part of the text.
                    Some('\n') => {
                        while self.peek(0).is_some_and(char::is_whitespace) {
                            self.bump();
                        }
                    }
                    Some(c) => value.push(c),
                    None => break,
                },
                c => value.push(c),
            }
        }
        self.push(Tok::Str(value), line);
    }

    /// A character literal or a lifetime.
    fn quote(&mut self) {
        self.bump();
        if self.peek(0) == Some('\\') {
            self.bump();
            self.bump();
            while self.peek(0).is_some_and(|c| c != '\'') {
                self.bump();
            }
            self.bump();
        } else if self.peek(1) == Some('\'') {
            self.bump();
            self.bump();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> String {
        let show = |t: Token| match t.tok {
            Tok::Word(w) => w,
            Tok::Str(s) => format!("<{s}>"),
            Tok::Punct(c) => c.to_string(),
        };
        tokens(text).into_iter().map(show).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn comments_are_dropped_and_strings_are_values() {
        for (text, expected) in [
            ("a // todo!()\nb", "a b"),
            ("a /* x /* y */ z */ b", "a b"),
            (r##"f("a\"b", r#"c"d"#, b"e")"##, "f ( <a\"b> , <c\"d> , <e> )"),
            ("\"one \\\n     two\"", "<one two>"),
            (
                "fn f<'a>(c: char) { c == 'x' || c == '\\'' || c == '\"' }",
                "fn f < a > ( c : char ) { c = = | | c = = | | c = = }",
            ),
        ] {
            assert_eq!(words(text), expected, "{text}");
        }
    }

    #[test]
    fn lines_are_counted_through_strings() {
        let last = tokens("\"a\nb\"\n/*\n*/ x").pop();
        assert_eq!(last, Some(Token { tok: Tok::Word("x".into()), line: 4 }));
    }

    #[test]
    fn brackets_match() {
        let tokens = tokens("a { b ( x ) c } d");
        assert_eq!(matching(&tokens, 1), 7);
    }
}
