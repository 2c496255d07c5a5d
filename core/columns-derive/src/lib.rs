//! `#[derive(Described)]`: see the trait of this name in `warmswap-columns`.

#![forbid(unsafe_code)]

use proc_macro2::{Ident, Span, TokenStream};
use quote::quote;
use syn::parse::{Parse, ParseStream};
use syn::{Attribute, Data, DeriveInput, Expr, LitStr, Path, Result, Token, Type};

/// Makes a row of a table of a struct.
#[proc_macro_derive(Described, attributes(column))]
pub fn described(input: proc_macro::TokenStream) -> proc_macro::TokenStream {
    let input = syn::parse_macro_input!(input as DeriveInput);
    implementation(&input)
        .unwrap_or_else(syn::Error::into_compile_error)
        .into()
}

fn implementation(input: &DeriveInput) -> Result<TokenStream> {
    let mut columns = Vec::new();
    let Data::Struct(data) = &input.data else {
        return Err(syn::Error::new_spanned(input, "a row is a struct"));
    };
    for field in &data.fields {
        for attribute in of_columns(&field.attrs) {
            let name = field.ident.as_ref();
            let name =
                name.ok_or_else(|| syn::Error::new_spanned(attribute, "a column needs a name"))?;
            let says: Says = match &attribute.meta {
                syn::Meta::Path(_) => Says::default(),
                _ => attribute.parse_args()?,
            };
            let value = match &says.with {
                Some(path) => quote!(#path(&self.#name)),
                None => quote!(self.#name),
            };
            columns.push(says.column(name, Some(&field.ty), &value)?);
        }
    }
    for attribute in of_columns(&input.attrs) {
        let Computed { name, value, says } = attribute.parse_args()?;
        columns.push(says.column(&name, None, &quote!((#value)))?);
    }
    let (shapes, values): (Vec<_>, Vec<_>) = columns.into_iter().unzip();
    let name = &input.ident;
    let (generics, arguments, bounds) = input.generics.split_for_impl();
    Ok(quote! {
        impl #generics ::warmswap_columns::Described for #name #arguments #bounds {
            fn columns() -> ::std::vec::Vec<::warmswap_columns::Column> {
                ::std::vec![#(#shapes),*]
            }

            fn quantities(&self) -> ::std::vec::Vec<::warmswap_columns::Quantity> {
                ::std::vec![#(#values),*]
            }
        }
    })
}

fn of_columns(attributes: &[Attribute]) -> impl Iterator<Item = &Attribute> {
    attributes
        .iter()
        .filter(|attribute| attribute.path().is_ident("column"))
}

/// What an attribute says of a column.
#[derive(Default)]
struct Says {
    kind: Option<Ident>,
    origin: Option<Ident>,
    title: Option<String>,
    is_kept: bool,
    with: Option<Path>,
    paper: Option<Expr>,
}

impl Parse for Says {
    fn parse(input: ParseStream) -> Result<Self> {
        let mut says = Self::default();
        while !input.is_empty() {
            if input.peek(LitStr) {
                says.title = Some(input.parse::<LitStr>()?.value());
            } else {
                says.word(input)?;
            }
            if !input.is_empty() {
                input.parse::<Token![,]>()?;
            }
        }
        Ok(says)
    }
}

impl Says {
    fn word(&mut self, input: ParseStream) -> Result<()> {
        let word: Ident = input.parse()?;
        let name = word.to_string();
        match name.as_str() {
            "text" | "bytes" | "pages" | "duration" | "ratio" | "percent" | "count" | "number" => {
                self.kind = Some(capitalised(&word));
            }
            "measured" | "modelled" => self.origin = Some(capitalised(&word)),
            "kept" => self.is_kept = true,
            "with" => {
                input.parse::<Token![=]>()?;
                self.with = Some(input.parse()?);
            }
            "paper" => {
                input.parse::<Token![=]>()?;
                self.paper = Some(input.parse()?);
            }
            _ => return Err(syn::Error::new(word.span(), "no property of a column")),
        }
        Ok(())
    }

    /// The expressions that make the column, and its cell; both twice where there is a published value.
    fn column(
        &self,
        name: &Ident,
        ty: Option<&Type>,
        value: &TokenStream,
    ) -> Result<(TokenStream, TokenStream)> {
        let key = name.to_string();
        let kind = match &self.kind {
            Some(kind) => kind.clone(),
            None => kind_of(&key, ty).ok_or_else(|| {
                syn::Error::new(name.span(), "the kind does not follow from name and type")
            })?,
        };
        let title = self.title.clone().unwrap_or_else(|| title_of(&key));
        let kept = self.is_kept.then(|| quote!(.kept()));
        let column = |key: &str, origin: Option<&Ident>| {
            let origin = origin.map(|origin| quote!(.from(::warmswap_columns::Origin::#origin)));
            quote!(::warmswap_columns::Column::new(#key, #title, ::warmswap_columns::Kind::#kind) #origin #kept)
        };
        let cell = |value: &TokenStream| quote!(::warmswap_columns::Value::quantity(&#value, ::warmswap_columns::Kind::#kind));
        let (mut shape, mut shown) = (column(&key, self.origin.as_ref()), cell(value));
        if let Some(paper) = &self.paper {
            let origin = Ident::new("Paper", Span::call_site());
            let beside = column(&format!("{key}_paper"), Some(&origin));
            let published = cell(&quote!((#paper)));
            shape = quote!(#shape, #beside);
            shown = quote!(#shown, #published);
        }
        Ok((shape, shown))
    }
}

/// A column of no field: `key = expression`, and what is said of it, if anything.
struct Computed {
    name: Ident,
    value: Expr,
    says: Says,
}

impl Parse for Computed {
    fn parse(input: ParseStream) -> Result<Self> {
        let name = input.parse()?;
        input.parse::<Token![=]>()?;
        let value = input.parse()?;
        if !input.is_empty() {
            input.parse::<Token![,]>()?;
        }
        let says = input.parse()?;
        Ok(Self { name, value, says })
    }
}

fn capitalised(word: &Ident) -> Ident {
    let text = word.to_string();
    let (first, rest) = text.split_at(1);
    Ident::new(&(first.to_uppercase() + rest), word.span())
}

/// Suffixes that name a unit, with the kind that they stand for.
const UNITS: [(&str, &str); 3] = [
    ("_ns", "Duration"),
    ("_bytes", "Bytes"),
    ("_pages", "Count"),
];

fn kind_of(key: &str, ty: Option<&Type>) -> Option<Ident> {
    let unit = UNITS.iter().find(|(suffix, _)| key.ends_with(suffix));
    let by_type = || {
        let ty = ty?;
        let text = quote!(#ty).to_string();
        match text.as_str() {
            "String" | "Cow < 'static , str >" | "& 'static str" => Some("Text"),
            "u8" | "u16" | "u32" | "u64" | "usize" | "Option < u64 >" => Some("Count"),
            _ => None,
        }
    };
    let kind = unit.map(|(_, kind)| *kind).or_else(by_type)?;
    Some(Ident::new(kind, Span::call_site()))
}

fn title_of(key: &str) -> String {
    let mut suffixes = UNITS.iter().map(|(suffix, _)| *suffix);
    let name = suffixes.find_map(|suffix| key.strip_suffix(suffix));
    name.unwrap_or(key).replace('_', " ")
}
